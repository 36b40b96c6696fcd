#include "model/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "base/random.hpp"
#include "nn/layer.hpp"

namespace dynpipe::model {
namespace {

using base::Shape;
using nlohmann::json;

Model parse(const std::string& text) {
  return parse_model(text, "models/x.json", nn::layer_types());
}

/// A model of these layers (JSON text without the brackets).
std::string model_of(const std::string& layers, const std::string& input = "[3,8,8]") {
  return R"({"name": "x", "input": )" + input + R"(, "layers": [)" + layers +
         R"(], "loss": "softmax_cross_entropy"})";
}

/// The same, ended so that any image makes a proper model.
std::string image_model_of(const std::string& layers) {
  return model_of(layers + R"(, {"name": "mean", "type": "global_avgpool"},
                               {"name": "flatten", "type": "flatten"})");
}

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const base::InputError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::bad_input);
    return error.what();
  }
  return "(nothing thrown)";
}

struct BadInput {
  std::string text;
  std::vector<std::string> said;
};

void expect_refused(const std::vector<BadInput>& inputs) {
  for (const BadInput& input : inputs) {
    const std::string message = message_of(input.text);
    EXPECT_EQ(message.rfind("models/x.json: ", 0), 0u) << message;
    for (const std::string& part : input.said) {
      EXPECT_NE(message.find(part), std::string::npos)
          << "in: " << message << "\nexpected: " << part << "\nof: " << input.text.substr(0, 300);
    }
  }
}

std::string read_shipped(const std::string& name) {
  std::ifstream stream(std::string(DYNPIPE_SOURCE_DIR) + "/models/" + name + ".json");
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

Model shipped(const std::string& name) {
  return parse_model(read_shipped(name), name + ".json", nn::layer_types());
}

std::int64_t parameters_of(const Model& model) {
  std::int64_t elements = 0;
  for (const Layer& layer : model.layers) elements += layer.facts.parameter_elements();
  return elements;
}

std::int64_t flops_of(const Model& model) {
  std::int64_t flops = 0;
  for (const Layer& layer : model.layers) flops += layer.facts.forward_flops;
  return flops;
}

TEST(Model, RefusesWhatIsNotJsonWithItsPlace) {
  expect_refused({
      {"", {"line 1, column 1: not JSON", "end of input"}},
      {"{\"name\": \"x\",\n  \"input\": [1,2,}", {"line 2, column 17: not JSON: syntax error"}},
      {"{} {}", {"line 1, column 4"}},
      {"{\"name\": \"\xff\"}", {"not JSON", "UTF-8"}},
      {model_of(R"({"name": "a", "type": "dropout", "p": 1e999})"), {"1e999"}},
      {"[]", {"must be an object, is []"}},
      {"3", {"must be an object, is 3"}},
      {std::string(100000, '['), {"nested deeper than 64"}},
      {R"({"name": "x", "name": "y"})", {R"(key "name" twice)"}},
  });
}

TEST(Model, RefusesMissingUnknownAndMistypedFields) {
  const std::string relu = R"({"name": "a", "type": "relu"})";
  const auto conv = [](const std::string& fields) {
    return image_model_of(R"({"name": "a", "type": "conv2d", "out_channels": 4, )" + fields + "}");
  };
  expect_refused({
      {R"({"input": [3], "layers": [], "loss": "softmax_cross_entropy"})", {"name: is missing"}},
      {R"({"name": "x", "layers": []})", {"input: is missing"}},
      {R"({"name": "x", "input": [3]})", {"layers: is missing"}},
      {R"({"name": "x", "input": [3], "layers": [)" + relu + "]}", {"loss: is missing"}},
      {R"({"name": "x", "input": [3], "layers": [)" + relu + R"(], "loss": "mse"})",
       {"loss: unknown loss \"mse\"", "softmax_cross_entropy"}},
      {R"({"name": "x", "input": [3], "layers": [)" + relu + R"(], "loss": 3})",
       {"loss: must be a string, is 3"}},
      {R"({"name": "x", "input": [3], "layers": [)" + relu +
           R"(], "loss": "softmax_cross_entropy", "lose": 1})",
       {"unknown field \"lose\"", "name, input, layers, loss"}},
      {model_of(""), {"layers: must have at least one layer"}},
      {R"({"name": "x", "input": [3], "layers": {}})", {"layers: must be an array of layers"}},
      {model_of("7"), {"layers[0]: must be an object, is 7"}},
      {model_of(R"({"type": "relu"})"), {"layers[0]: name: is missing"}},
      {model_of(R"({"name": 1, "type": "relu"})"), {"layers[0]: name: must be a string, is 1"}},
      {model_of(R"({"name": "a"})"), {"layers[0] 'a': type: is missing"}},
      {model_of(R"({"name": "a", "type": null})"), {"layers[0] 'a': type: must be a string"}},
      {model_of(R"({"name": "a", "type": "convolution"})"),
       {"layers[0] 'a': type: unknown layer type \"convolution\"",
        "avgpool, batchnorm2d, conv2d, dropout, flatten, global_avgpool, linear, maxpool, relu, "
        "residual"}},
      {model_of(R"({"name": "a", "type": "relu", "kernel": 3})"),
       {"layers[0] 'a': unknown field \"kernel\"; there are name, type"}},
      {conv(R"("kernal": 3)"), {"layers[0] 'a': kernel: is missing"}},
      {conv(R"("kernel": 3, "paddding": 1)"),
       {"unknown field \"paddding\"", "kernel, stride, padding, bias"}},
      {conv(R"("kernel": "3")"), {"layers[0] 'a': kernel: must be a whole number, is \"3\""}},
      {conv(R"("kernel": 3.0)"), {"kernel: must be a whole number, is 3.0"}},
      {conv(R"("kernel": [3])"), {"kernel: must be a whole number or a pair [h,w], is [3]"}},
      {conv(R"("kernel": [3, true])"), {"kernel: must be a whole number, is true"}},
      {conv(R"("kernel": 0)"), {"kernel: must be at least 1, is 0"}},
      {conv(R"("kernel": -9223372036854775808)"), {"kernel: must be at least 1, is -92"}},
      {conv(R"("kernel": 18446744073709551615)"), {"kernel: must be at most 2147483647"}},
      {conv(R"("kernel": 3, "stride": 0)"), {"stride: must be at least 1"}},
      {conv(R"("kernel": 3, "padding": -1)"), {"padding: must be at least 0"}},
      {conv(R"("kernel": 3, "padding": 3)"), {"padding: must be smaller than the kernel [3,3]"}},
      {conv(R"("kernel": 3, "bias": 1)"), {"bias: must be true or false, is 1"}},
      {image_model_of(R"({"name": "a", "type": "maxpool", "kernel": 3, "padding": 2})"),
       {"padding: must be at most half of the kernel [3,3], is [2,2]"}},
      {image_model_of(R"({"name": "a", "type": "dropout", "p": 1})"),
       {"p: must be at least 0 and below 1, is 1"}},
      {image_model_of(R"({"name": "a", "type": "dropout", "p": "half"})"), {"p: must be a number"}},
      {image_model_of(R"({"name": "a", "type": "batchnorm2d", "epsilon": 0})"),
       {"epsilon: must be at least"}},
      {image_model_of(R"({"name": "a", "type": "residual"})"), {"layers[0] 'a': body: is missing"}},
      {image_model_of(R"({"name": "a", "type": "residual", "body": []})"),
       {"layers[0] 'a': body: must have at least one layer"}},
      {image_model_of(R"({"name": "a", "type": "residual", "body": [)"
                      R"({"name": "b", "type": "dropout", "q": 1}]})"),
       {"layers[0] 'a': body[0] 'a.b': unknown field \"q\""}},
  });
}

TEST(Model, RefusesUnusableNames) {
  const auto layer = [](const std::string& name) {
    return R"({"name": ")" + name + R"(", "type": "relu"})";
  };
  const std::string bn = R"("type": "batchnorm2d")";
  expect_refused({
      {model_of(layer("")), {"layers[0]: name: must not be empty"}},
      {model_of(layer("a b")), {"layers[0]: name: must consist of", "\"a b\""}},
      {model_of(layer("a/b")), {"name: must consist of letters, digits"}},
      {model_of(layer("..")), {"name: must have a letter or digit on both sides of a dot"}},
      {model_of(layer("a") + "," + layer("b") + "," + layer("a")),
       {"layers[2]: name: 'a' is taken by an earlier layer"}},
      {R"({"name": "a b", "input": [3], "layers": [], "loss": "softmax_cross_entropy"})",
       {"models/x.json: name: must consist of"}},
      {image_model_of(R"({"name": "a", "type": "residual", "body": [)" + layer("r") +
                      R"(], "shortcut": [)" + layer("r") + "]}"),
       {"layers[0] 'a': shortcut: the name 'a.r' is taken by the body"}},
      {image_model_of(R"({"name": "a", "type": "residual", "body": [{"name": "b", )" + bn +
                      R"(}]}, {"name": "a.b", )" + bn + "}"),
       {"layers[1] 'a.b'", "'a.b.weight' has the name of another one"}},
  });
}

TEST(Model, RefusesShapesThatDoNotFitAndSaysThem) {
  const std::string linear = R"({"name": "fc", "type": "linear", "out_features": 4})";
  expect_refused({
      {model_of(linear), {"layers[0] 'fc'", "linear layer takes features", "[3,8,8]"}},
      {model_of(R"({"name": "c", "type": "conv2d", "out_channels": 4, "kernel": 3})", "[12]"),
       {"layers[0] 'c'", "conv2d layer takes images [C,H,W]", "[12]"}},
      {image_model_of(R"({"name": "c", "type": "conv2d", "out_channels": 4, "kernel": [3, 11],
                          "padding": 1})"),
       {"layers[0] 'c': kernel: [3,11] does not fit the input [3,8,8] with padding [1,1]"}},
      {image_model_of(R"({"name": "p", "type": "avgpool", "kernel": 9})"),
       {"kernel: [9,9] does not fit"}},
      {image_model_of(R"({"name": "r", "type": "residual", "body": [
                          {"name": "c", "type": "conv2d", "out_channels": 4, "kernel": 3}]})"),
       {"layers[0] 'r'", "the body gives [4,6,6] but the shortcut gives [3,8,8]"}},
      {model_of(R"({"name": "a", "type": "relu"})"),
       {"layers[0] 'a'", "last layer must give [classes], gives [3,8,8]"}},
      {model_of(linear, "[]"), {"input: must be [C,H,W] or [features], is []"}},
      {model_of(linear, "[1,2]"), {"input: must be [C,H,W] or [features], is [1,2]"}},
      {model_of(linear, "[0]"), {"input: must be at least 1, is 0"}},
      {model_of(linear, "\"3\""), {"input: must be [C,H,W]"}},
  });
}

TEST(Model, RefusesAbsurdSizes) {
  const std::string huge = "2147483647";
  expect_refused({
      {model_of(R"({"name": "a", "type": "flatten"})", "[" + huge + "," + huge + "," + huge + "]"),
       {"input: more than 2^48 elements"}},
      {model_of(R"({"name": "a", "type": "linear", "out_features": )" + huge + "}",
                "[" + huge + "]"),
       {"layers[0] 'a': more than 2^48 operations"}},
      {image_model_of(R"({"name": "a", "type": "conv2d", "kernel": 1, "out_channels": )" + huge +
                      R"(}, {"name": "b", "type": "conv2d", "kernel": 1, "out_channels": )" + huge +
                      "}"),
       {"layers[1] 'b': more than 2^48"}},
      {image_model_of(R"({"name": "a", "type": "conv2d", "out_channels": 1, "kernel": )" + huge +
                      R"(, "padding": 2147483646})"),
       {"layers[0] 'a': more than 2^48"}},
      {model_of(R"({"name": "a", "type": "linear", "out_features": 2147483648})", "[4]"),
       {"out_features: must be at most 2147483647, is 2147483648"}},
  });
  std::string many = R"({"name": "l", "type": "relu"})";
  for (int i = 0; i < 4096; ++i) {
    many += R"(,{"name": "l)" + std::to_string(i) + R"(", "type": "relu"})";
  }
  expect_refused({{model_of(many), {"layers: has 4097 layers; at most 4096"}}});
}

TEST(Model, KnowsTheFactsOfALayer) {
  const Model model = parse(model_of(
      R"({"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": [3, 2], "stride": [2, 1],
          "padding": [1, 0]},
         {"name": "bn", "type": "batchnorm2d", "momentum": 0.2},
         {"name": "pool", "type": "maxpool", "kernel": 3, "stride": 2, "padding": 1},
         {"name": "flatten", "type": "flatten"},
         {"name": "fc", "type": "linear", "out_features": 5, "bias": false})",
      "[3,9,8]"));
  ASSERT_EQ(model.size(), 5);
  const LayerFacts& conv = model.layers[0].facts;
  EXPECT_EQ(conv.output, (Shape{4, 5, 7}));
  EXPECT_EQ(conv.forward_flops, 2 * (4 * 5 * 7) * (3 * 3 * 2));
  EXPECT_EQ(conv.activation_elements, 4 * 5 * 7);
  ASSERT_EQ(conv.parameters.size(), 2u);
  EXPECT_EQ(conv.parameters[0].name, "weight");
  EXPECT_EQ(conv.parameters[0].shape, (Shape{4, 3, 3, 2}));
  EXPECT_EQ(conv.parameters[0].init, Init::he_normal);
  EXPECT_EQ(conv.parameters[0].fan_in, 18);
  EXPECT_EQ(conv.parameters[1].shape, (Shape{4}));
  EXPECT_EQ(conv.parameters[1].init, Init::zeros);
  EXPECT_EQ(conv.parameter_elements(), 76);

  const LayerFacts& bn = model.layers[1].facts;
  EXPECT_EQ(bn.output, (Shape{4, 5, 7}));
  EXPECT_EQ(bn.parameters[0].init, Init::ones);
  ASSERT_EQ(bn.statistics.size(), 2u);
  EXPECT_EQ(bn.statistics[1].name, "running_var");
  EXPECT_EQ(bn.statistics[1].initial, 1.0);
  EXPECT_EQ(bn.statistics[1].momentum, 0.2);

  EXPECT_EQ(model.layers[2].facts.output, (Shape{4, 3, 4}));
  EXPECT_EQ(model.layers[3].facts.output, (Shape{48}));
  EXPECT_EQ(model.layers[4].input, (Shape{48}));
  EXPECT_EQ(model.layers[4].facts.parameter_elements(), 240);
  EXPECT_EQ(model.layers[4].facts.forward_flops, 480);
  EXPECT_EQ(model.classes, 5);
  EXPECT_EQ(model.find("pool"), 2);
  EXPECT_EQ(model.find("poo"), -1);
}

TEST(Model, NamesTheTensorsOfABlockAsTorchvisionDoes) {
  const Model model = parse(image_model_of(
      R"({"name": "layer1.0", "type": "residual",
          "body": [{"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1,
                    "bias": false},
                   {"name": "bn1", "type": "batchnorm2d"}],
          "shortcut": [{"name": "downsample.0", "type": "conv2d", "out_channels": 4, "kernel": 1}]})"));
  const LayerFacts& block = model.layers[0].facts;
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : block.parameters) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "bn1.weight", "bn1.bias",
                                             "downsample.0.weight", "downsample.0.bias"}));
  EXPECT_EQ(block.statistics[0].name, "bn1.running_mean");
  EXPECT_EQ(block.output, (Shape{4, 8, 8}));
  const std::int64_t image = 8 * 8 * 4;
  EXPECT_EQ(block.forward_flops, image * (2 * 27 + 6 + 2 * 3 + 1));
  EXPECT_EQ(block.activation_elements, 4 * image);  // both convolutions, the norm, the sum
}

TEST(Model, ShippedModelsAreWhatTheySay) {
  const Model lenet5 = shipped("lenet5");
  EXPECT_EQ(lenet5.input, (Shape{1, 28, 28}));
  EXPECT_EQ(lenet5.classes, 10);
  EXPECT_EQ(parameters_of(lenet5), 61706);  // LeCun et al. 1998, with all-to-all feature maps

  const Model vgg8 = shipped("vgg8");
  EXPECT_EQ(vgg8.input, (Shape{1, 28, 28}));
  EXPECT_EQ(vgg8.classes, 10);
  EXPECT_LT(flops_of(vgg8), 28'000'000);
}

/// One random edit of the text: a byte changed, a piece deleted, repeated or moved, or a value put
/// in the place of another.
std::string mutated(std::string text, const base::Philox& random, std::uint64_t draw) {
  static const std::vector<std::string> k_values = {
      "-1",  "0",  "1e400", "18446744073709551616", "2147483647", "null", "true", "\"\"",
      "[]",  "{}", "[[[",   "\"conv2d\"",           "1.5",        "\\u",  "-",    "\"linear\"",
      "3,3", ":",  "}",     "\"residual\"",         "\"name\"",   "1e-3", "\xc3", "\"body\""};
  const int edits = 1 + static_cast<int>(random.below(draw * 64, 3));
  for (int edit = 0; edit < edits && !text.empty(); ++edit) {
    const std::uint64_t first = draw * 64 + 1 + static_cast<std::uint64_t>(edit) * 8;
    const auto pick = [&](std::uint64_t offset, std::size_t bound) {
      return static_cast<std::size_t>(random.below(first + offset, bound));
    };
    const std::size_t at = pick(0, text.size());
    const std::size_t length = 1 + pick(1, 20);
    switch (pick(2, 5)) {
      case 0:
        text[at] = static_cast<char>(pick(3, 256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(pick(3, text.size()), text.substr(at, length));
        break;
      default: {  // after the next colon or bracket, up to the next comma or bracket
        const std::size_t begin = std::min(text.find_first_of(":[", at), text.size() - 1) + 1;
        const std::size_t end = std::min(text.find_first_of(",]}", begin), text.size());
        text.replace(begin, end - begin, k_values[pick(3, k_values.size())]);
      }
    }
  }
  return text;
}

TEST(Model, AnyMutationOfAModelFileIsAModelOrAnInputError) {
  const std::string valid = image_model_of(
      R"({"name": "c", "type": "conv2d", "out_channels": 4, "kernel": [3, 3], "padding": 1},
         {"name": "r", "type": "residual",
          "body": [{"name": "b", "type": "batchnorm2d"}, {"name": "d", "type": "dropout", "p": 0.2}],
          "shortcut": [{"name": "e", "type": "conv2d", "out_channels": 4, "kernel": 1}]},
         {"name": "p", "type": "maxpool", "kernel": 2})");
  ASSERT_NO_THROW(parse(valid));
  const base::Philox random(1, "mutations");
  int refused = 0;
  for (std::uint64_t draw = 0; draw < 2000; ++draw) {
    const std::string text = mutated(valid, random, draw);
    try {
      parse(text);
    } catch (const base::InputError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\nfrom: " << text;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace dynpipe::model
