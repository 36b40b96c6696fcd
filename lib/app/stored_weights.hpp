#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// A parameter or running statistic in a file.
struct StoredTensor {
  std::string layer, name;  ///< "layer1.0", "bn1.weight"
  std::string file;         ///< that holds it, of a checkpoint's folder
  tensor::DType dtype = tensor::DType::float32;
  base::Shape shape;

  std::string full_name() const { return layer + "." + name; }
};

/// The newest parameters and the running statistics of a model in what a run has left: a file of
/// weights (train --save-weights) or a checkpoint. Files of a checkpoint are checked against their
/// digests first. Everything throws InputError naming file and tensor.
class StoredWeights {
 public:
  /// `place`: a file of weights, a checkpoint, or a folder of checkpoints, of which it is the
  /// newest.
  explicit StoredWeights(const std::string& place);

  /// The file or checkpoint that was found at the place.
  const std::string& place() const { return place_; }
  const std::string& model() const { return model_; }  ///< its name
  /// Of a checkpoint.
  std::optional<std::int64_t> update() const { return update_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// The elements of a tensor, in its own type, row-major.
  std::vector<std::byte> read(const StoredTensor& tensor) const;

 private:
  void open_file();
  void open_checkpoint();
  void add_layer(const io::File& file, const std::string& file_name, const std::string& layer);

  std::string place_, model_;
  std::optional<std::int64_t> update_;
  std::map<std::string, io::File> files_;  ///< by their names in a checkpoint; else one, ""
  std::vector<StoredTensor> tensors_;
};

}  // namespace dynpipe::app
