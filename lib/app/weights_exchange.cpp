#include "app/weights_exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "app/stored_weights.hpp"
#include "app/text_file.hpp"
#include "app/weights_file.hpp"
#include "base/counted.hpp"
#include "base/errors.hpp"
#include "io/safetensors.hpp"
#include "nn/layer.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::string_view k_tracked = "num_batches_tracked";

/// "bn1.num_batches_tracked" beside "bn1.running_mean"; empty beside others.
std::string tracked_beside(const std::string& name) {
  constexpr std::string_view k_mean = "running_mean";
  if (!name.ends_with(k_mean)) return "";
  return name.substr(0, name.size() - k_mean.size()) + std::string(k_tracked);
}

struct Count {
  std::size_t tensors = 0;
  std::int64_t elements = 0;

  void add(const base::Shape& shape) {
    ++tensors;
    elements += shape.elements();
  }
  std::string text() const {
    return fmt::format("{} with {} values",
                       base::counted(static_cast<std::int64_t>(tensors), "tensor"), elements);
  }
};

/// Wide elements first: counters, float64, float32.
std::vector<const StoredTensor*> in_file_order(const StoredWeights& weights) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : weights.tensors()) order.push_back(&tensor);
  std::stable_partition(order.begin(), order.end(),
                        [](const auto* t) { return t->dtype == tensor::DType::float64; });
  return order;
}

io::SafetensorsMetadata metadata_of(const StoredWeights& weights) {
  // What the Python package writes for PyTorch's tensors; some programs insist on it.
  io::SafetensorsMetadata metadata{{"format", "pt"}, {"model", weights.model()}};
  if (weights.update()) metadata["update"] = fmt::format("{}", *weights.update());
  return metadata;
}

template <typename T>
std::span<const T> as(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

void write_safetensors(const StoredWeights& weights, const std::string& file) {
  std::vector<io::SafetensorsPlan> plan;
  for (const StoredTensor& tensor : weights.tensors()) {
    const std::string counter = tracked_beside(tensor.full_name());
    if (!counter.empty()) plan.push_back({counter, "I64", {}});
  }
  const std::size_t counted = plan.size();
  const auto order = in_file_order(weights);
  for (const StoredTensor* tensor : order) {
    plan.push_back({tensor->full_name(), tensor->dtype == tensor::DType::float64 ? "F64" : "F32",
                    io::extent_of(tensor->shape)});
  }
  io::SafetensorsWriter writer(file, plan, metadata_of(weights));
  const std::vector<std::int64_t> updates{weights.update().value_or(0)};
  for (std::size_t i = 0; i < counted; ++i) writer.write<std::int64_t>(updates);
  for (const StoredTensor* tensor : order) {
    const std::vector<std::byte> bytes = weights.read(*tensor);
    if (tensor->dtype == tensor::DType::float64) {
      writer.write(as<double>(bytes));
    } else {
      writer.write(as<float>(bytes));
    }
  }
  writer.complete();
}

/// A tensor that a model needs, by its full name.
struct Needed {
  std::string name;
  base::Shape shape;
};

std::vector<Needed> needed_by(const model::Layer& layer) {
  std::vector<Needed> needed;
  const auto add = [&](const auto& spec) {
    needed.push_back({layer.spec.name + "." + spec.name, spec.shape});
  };
  std::for_each(layer.facts.parameters.begin(), layer.facts.parameters.end(), add);
  std::for_each(layer.facts.statistics.begin(), layer.facts.statistics.end(), add);
  return needed;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t k_most = 3;
  const std::span<const std::string> first(names.data(), std::min(names.size(), k_most));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > k_most ? ", ..." : "");
}

/// A state dict as the tensors of a model.
class Imported {
 public:
  Imported(const io::SafetensorsFile& file, const model::Model& model)
      : file_(file), model_(model), prefix_(find_prefix()) {
    check_names();
    for (const model::Layer& layer : model.layers) {
      for (const Needed& needed : needed_by(layer)) check(needed);
    }
  }

  const Count& count() const { return count_; }
  /// Of the file of weights.
  tensor::DType dtype() const { return dtype_; }

  tensor::StateDict layer(const model::Layer& layer) const {
    tensor::StateDict state;
    for (const Needed& needed : needed_by(layer)) {
      state[needed.name] = {needed.shape, file_.read(*file_.find(prefix_ + needed.name))};
    }
    return state;
  }

 private:
  /// What stands before all names.
  std::string find_prefix() const {
    for (const model::Layer& layer : model_.layers) {
      for (const Needed& needed : needed_by(layer)) {
        for (const char* prefix : {"", "module.", "_orig_mod.", "module._orig_mod."}) {
          if (file_.find(prefix + needed.name) != nullptr) return prefix;
        }
      }
    }
    return "";
  }

  void check_names() const {
    std::set<std::string, std::less<>> needed;
    std::vector<std::string> missing, unknown;
    for (const model::Layer& layer : model_.layers) {
      for (const Needed& tensor : needed_by(layer)) {
        needed.insert(prefix_ + tensor.name);
        if (file_.find(prefix_ + tensor.name) == nullptr) missing.push_back(tensor.name);
      }
    }
    for (const io::SafetensorsEntry& entry : file_.tensors()) {
      const bool counter = std::string_view(entry.name).ends_with(k_tracked);
      if (!counter && !needed.contains(entry.name)) unknown.push_back(entry.name);
    }
    std::vector<std::string> problems;
    if (!missing.empty()) {
      problems.push_back(fmt::format("lacks {} of {} tensors of {} ({})", missing.size(),
                                     needed.size(), model_.file, some_of(missing)));
    }
    if (!unknown.empty()) {
      problems.push_back(fmt::format(
          "has {} that the model has not ({})",
          base::counted(static_cast<std::int64_t>(unknown.size()), "tensor"), some_of(unknown)));
    }
    if (!problems.empty()) {
      throw InputError(file_.name(), "", fmt::format("{}", fmt::join(problems, " and ")));
    }
  }

  void check(const Needed& needed) {
    const io::SafetensorsEntry& entry = *file_.find(prefix_ + needed.name);
    if (entry.shape != io::extent_of(needed.shape)) {
      throw InputError(file_.name(), entry.name,
                       fmt::format("has shape [{}], {} needs {}", fmt::join(entry.shape, ","),
                                   model_.file, needed.shape.to_string()));
    }
    file_.require_numbers(entry);
    if (entry.dtype == "F64") dtype_ = tensor::DType::float64;
    count_.add(needed.shape);
  }

  const io::SafetensorsFile& file_;
  const model::Model& model_;
  std::string prefix_;
  Count count_;
  tensor::DType dtype_ = tensor::DType::float32;
};

}  // namespace

std::string export_weights(const ExportOptions& options) {
  const StoredWeights weights(options.source);
  require_writable(options.safetensors);
  write_safetensors(weights, options.safetensors);
  Count count;
  for (const StoredTensor& tensor : weights.tensors()) count.add(tensor.shape);
  return fmt::format("{}: {} of {}{}, as PyTorch names them, written to {}\n", weights.model(),
                     count.text(), weights.place(),
                     weights.update() ? fmt::format(" (update {})", *weights.update()) : "",
                     options.safetensors);
}

std::string import_weights(const ImportWeightsOptions& options) {
  const model::Model model =
      model::parse_model(read_text_file(options.model), options.model, nn::layer_types());
  const io::SafetensorsFile file(options.safetensors);
  const Imported imported(file, model);
  require_writable(options.out);
  WeightsFile out(options.out, model, imported.dtype());
  for (const model::Layer& layer : model.layers) {
    out.add(std::span(&layer, 1), imported.layer(layer));
  }
  out.complete();
  return fmt::format("{}: {} of {} written to {} ({}), for eval --weights and train --init-from\n",
                     model.name, imported.count().text(), options.safetensors, options.out,
                     name_of(imported.dtype()));
}

}  // namespace dynpipe::app
