#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "app/weights_exchange.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;

OptionGroup describe(ExportOptions& o) {
  OptionGroup group("Options");
  option(group, "safetensors", &o.safetensors, "FILE", "file to write; required");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup describe(ImportWeightsOptions& o) {
  OptionGroup group("Options");
  option(group, "model", &o.model, "FILE", "model description (JSON); required");
  option(group, "out", &o.out, "FILE", "file of weights (HDF5) to write; required");
  option(group, "safetensors", &o.safetensors, "FILE", "another way to say which file to read");
  group.add_options()("help", "this text");
  return group;
}

void require(const std::string& name, const std::string& value) {
  if (value.empty()) throw base::InputError("", name, "is missing");
}

}  // namespace

std::string export_help() {
  ExportOptions options;
  std::ostringstream text;
  text << "usage: dynpipe checkpoint export SOURCE --safetensors FILE\n\n"
          "Writes weights as a safetensors file, in PyTorch's names and layouts. SOURCE is a\n"
          "file of weights (train --save-weights), a checkpoint (a folder step-N), or a\n"
          "folder of checkpoints, of which it is the newest. In Python:\n\n"
          "    model.load_state_dict(safetensors.torch.load_file(\"FILE\"))\n\n"
       << describe(options)
       << "\nExit codes: 0 written, 1 it could not be, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<ExportOptions> parse_export_options(const std::vector<std::string>& words) {
  ExportOptions options;
  OptionGroup all;
  all.add(describe(options)).add_options()("source", po::value(&options.source), "");
  po::positional_options_description places;
  places.add("source", 1);
  if (!parse_words("checkpoint export", words, all, places)) return std::nullopt;
  require("SOURCE", options.source);
  require("--safetensors", options.safetensors);
  return options;
}

std::string import_weights_help() {
  ImportWeightsOptions options;
  std::ostringstream text;
  text << "usage: dynpipe checkpoint import FILE.safetensors --model FILE --out FILE.h5\n\n"
          "Makes a file of weights (for eval --weights and train --init-from) of a PyTorch\n"
          "state dict, saved by\n\n"
          "    safetensors.torch.save_file(model.state_dict(), \"FILE.safetensors\")\n\n"
          "It must have all that the model needs, by PyTorch's names, and nothing else (but\n"
          "num_batches_tracked).\n\n"
       << describe(options)
       << "\nExit codes: 0 written, 1 it could not be, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<ImportWeightsOptions> parse_import_weights_options(
    const std::vector<std::string>& words) {
  ImportWeightsOptions options;
  po::positional_options_description places;
  places.add("safetensors", 1);
  if (!parse_words("checkpoint import", words, describe(options), places)) return std::nullopt;
  require("FILE", options.safetensors);
  require("--model", options.model);
  require("--out", options.out);
  return options;
}

}  // namespace dynpipe::app
