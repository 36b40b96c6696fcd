#include "app/stored_weights.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "app/checkpoint_contents.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;
namespace fs = std::filesystem;

template <typename T>
std::vector<std::byte> bytes_of(const io::Dataset& dataset) {
  const std::vector<T> values = dataset.read_all<T>();
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

StoredWeights::StoredWeights(const std::string& place) : place_(place) {
  std::error_code error;
  if (fs::is_directory(place, error)) {
    place_ = io::newest_checkpoint(place).string();
    open_checkpoint();
  } else {
    open_file();
  }
}

void StoredWeights::open_file() {
  const io::File& file = files_.emplace("", io::File::open(place_)).first->second;
  const auto model = file.text_attribute("/", "model");
  const auto elements = file.attribute("/", "elements");
  if (!model || model->size() != 1 || !elements || elements->size() != 1) {
    throw InputError(place_, "",
                     "is no file of weights (written by train --save-weights) and no checkpoint");
  }
  model_ = model->front();
  for (const std::string& layer : file.children("/model")) add_layer(file, "", layer);
  double found = 0;
  for (const StoredTensor& tensor : tensors_) {
    found += static_cast<double>(tensor.shape.elements());
  }
  if (found != elements->front()) {
    throw InputError(place_, "elements",
                     fmt::format("are {}, but its tensors have {}", elements->front(), found));
  }
}

void StoredWeights::open_checkpoint() {
  const io::Checkpoint checkpoint(place_);
  const io::CheckpointFacts facts = checkpoint.facts();
  model_ = facts.model;
  update_ = facts.update;
  for (const io::CheckpointLayer& layer : facts.layers) {
    if (!files_.contains(layer.file)) {
      checkpoint.check(layer.file);
      files_.emplace(layer.file, checkpoint.open(layer.file));
    }
    add_layer(files_.at(layer.file), layer.file, layer.name);
  }
}

void StoredWeights::add_layer(const io::File& file, const std::string& file_name,
                              const std::string& layer) {
  for (const std::string& name : file.children("/model/" + layer)) {
    const ShardTensor found = describe_tensor(file.dataset(io::parameter_path(layer, name)));
    tensors_.push_back({layer, name, file_name, found.dtype, found.shape});
  }
}

std::vector<std::byte> StoredWeights::read(const StoredTensor& tensor) const {
  const io::File& file = files_.at(tensor.file);
  const std::string path = io::parameter_path(tensor.layer, tensor.name);
  if (update_) return read_checked(file, {path, tensor.dtype, tensor.shape});
  const io::Dataset dataset = file.dataset(path);
  return tensor.dtype == tensor::DType::float64 ? bytes_of<double>(dataset)
                                                : bytes_of<float>(dataset);
}

}  // namespace dynpipe::app
