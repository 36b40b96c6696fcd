#include "app/weights_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "base/errors.hpp"
#include "io/checkpoint.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

/// A tensor of a layer, by its names in a StateDict and in a file.
struct Item {
  std::string name, path;
  base::Shape shape;
};

std::vector<Item> items_of(std::span<const model::Layer> layers) {
  std::vector<Item> items;
  for (const model::Layer& layer : layers) {
    const auto add = [&](const std::string& name, const base::Shape& shape) {
      items.push_back({fmt::format("{}.{}", layer.spec.name, name),
                       fmt::format("/model/{}/{}", layer.spec.name, name), shape});
    };
    for (const model::ParameterSpec& spec : layer.facts.parameters) add(spec.name, spec.shape);
    for (const model::StatisticSpec& spec : layer.facts.statistics) add(spec.name, spec.shape);
  }
  return items;
}

std::int64_t elements_of(std::span<const model::Layer> layers) {
  std::int64_t elements = 0;
  for (const Item& item : items_of(layers)) elements += item.shape.elements();
  return elements;
}

template <typename T>
std::string packed_as(std::span<const model::Layer> layers, const tensor::StateDict& state) {
  std::string bytes(static_cast<std::size_t>(elements_of(layers)) * sizeof(T), '\0');
  char* next = bytes.data();
  for (const Item& item : items_of(layers)) {
    for (double value : state.at(item.name).values) {
      const T narrow = static_cast<T>(value);
      std::memcpy(next, &narrow, sizeof(T));
      next += sizeof(T);
    }
  }
  return bytes;
}

template <typename T>
tensor::StateDict unpacked_as(std::span<const model::Layer> layers, const std::string& bytes) {
  tensor::StateDict state;
  const char* next = bytes.data();
  for (const Item& item : items_of(layers)) {
    tensor::HostTensor& tensor = state[item.name];
    tensor.shape = item.shape;
    for (std::int64_t i = 0; i < item.shape.elements(); ++i) {
      T value{};
      std::memcpy(&value, next, sizeof(T));
      tensor.values.push_back(static_cast<double>(value));
      next += sizeof(T);
    }
  }
  return state;
}

void check_model(const io::File& h5, const model::Model& model) {
  const auto name = h5.text_attribute("/", "model");
  if (h5.has("/shards")) {  // a checkpoint
    if (name && *name == std::vector{model.name}) return;
    throw InputError(h5.name(), "model", fmt::format("is not '{}' of {}", model.name, model.file));
  }
  const auto elements = h5.attribute("/", "elements");
  if (!elements || elements->empty() || !name || name->empty()) {
    throw InputError(h5.name(), "", "is no file of weights (written by train --save-weights)");
  }
  const std::int64_t needed = elements_of(model.layers);
  const auto held = static_cast<std::int64_t>(elements->front());
  if (name->front() != model.name || held != needed) {
    throw InputError(h5.name(), "model",
                     fmt::format("is '{}' with {} values; '{}' of {} has {}", name->front(), held,
                                 model.name, model.file, needed));
  }
}

io::Dataset open_tensor(const io::File& h5, const Item& item) {
  if (!h5.has(item.path)) throw InputError(h5.name(), item.path, "is missing");
  io::Dataset dataset = h5.dataset(item.path);
  if (dataset.shape() != io::extent_of(item.shape)) {
    std::vector<std::int64_t> dims(dataset.shape().begin(), dataset.shape().end());
    throw InputError(h5.name(), item.path,
                     fmt::format("has shape [{}], the model needs {}", fmt::join(dims, ","),
                                 item.shape.to_string()));
  }
  if (dataset.element() != io::Element::float32 && dataset.element() != io::Element::float64) {
    throw InputError(h5.name(), item.path,
                     fmt::format("holds {}, not float32 or float64", name_of(dataset.element())));
  }
  return dataset;
}

}  // namespace

WeightsFile::WeightsFile(std::string file, const model::Model& model, tensor::DType dtype)
    : file_(std::move(file)),
      partial_(file_ + ".partial"),
      dtype_(dtype),
      h5_(io::File::create(partial_)) {
  h5_.set_attribute("/", "model", model.name);
  const std::vector<double> elements{static_cast<double>(elements_of(model.layers))};
  h5_.set_attribute("/", "elements", elements);
}

void WeightsFile::add(std::span<const model::Layer> layers, const tensor::StateDict& state) {
  const bool wide = dtype_ == tensor::DType::float64;
  for (const Item& item : items_of(layers)) {
    io::DatasetLayout layout;
    layout.element = wide ? io::Element::float64 : io::Element::float32;
    layout.shape = io::extent_of(item.shape);
    const std::vector<double>& values = state.at(item.name).values;
    h5_.create_dataset(item.path, layout).write_all(std::span<const double>(values));
  }
}

void WeightsFile::complete() {
  h5_.close();
  std::error_code failure;
  std::filesystem::rename(partial_, file_, failure);
  if (failure) {
    throw base::RunError(fmt::format("{}: cannot be written: {}", file_, failure.message()));
  }
}

void save_weights(const std::string& file, const model::Model& model, const plan::Plan& plan,
                  tensor::DType dtype, const tensor::StateDict& own, comm::World& world) {
  const bool wide = dtype == tensor::DType::float64;
  std::optional<WeightsFile> written;
  if (world.rank() == 0) written.emplace(file, model, dtype);
  // Stage by stage, so that rank 0 holds one of them at most.
  for (const plan::Stage& stage : plan.stages) {
    const std::span<const model::Layer> layers = plan::layers_of(model, stage);
    std::string bytes;
    if (stage.ranks.front() == world.rank()) {
      bytes = wide ? packed_as<double>(layers, own) : packed_as<float>(layers, own);
    }
    const std::vector<std::string> all = world.gather(bytes);
    if (!written) continue;
    const std::string& given = all[static_cast<std::size_t>(stage.ranks.front())];
    written->add(layers,
                 wide ? unpacked_as<double>(layers, given) : unpacked_as<float>(layers, given));
  }
  if (written) written->complete();
}

void require_writable(const std::string& file) {
  const bool was_there = std::filesystem::exists(file);
  const bool is_folder = std::filesystem::is_directory(file);
  if (is_folder || !std::ofstream(file, std::ios::app)) {
    throw InputError(file, "", "cannot be written");
  }
  if (!was_there) std::filesystem::remove(file);
}

io::File open_weights(const std::string& place) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return io::File::open(place);
  const io::Checkpoint checkpoint(io::newest_checkpoint(place));
  checkpoint.check_all();
  return checkpoint.open(io::k_index_file);
}

tensor::StateDict read_layers(const io::File& file, std::span<const model::Layer> layers) {
  tensor::StateDict state;
  for (const Item& item : items_of(layers)) {
    state[item.name] = {item.shape, open_tensor(file, item).read_all<double>()};
  }
  return state;
}

void check_layer(const io::File& file, const model::Layer& layer) {
  for (const Item& item : items_of(std::span(&layer, 1))) open_tensor(file, item);
}

tensor::StateDict read_weights(const std::string& file, const model::Model& model,
                               std::span<const model::Layer> layers) {
  const io::File h5 = open_weights(file);
  check_model(h5, model);
  return read_layers(h5, layers);
}

}  // namespace dynpipe::app
