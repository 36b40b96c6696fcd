#pragma once

#include <span>
#include <string>

#include "comm/world.hpp"
#include "io/hdf5.hpp"
#include "model/model.hpp"
#include "plan/plan.hpp"
#include "tensor/state_dict.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// Weights of a model as an HDF5 file: every parameter and running statistic as
/// /model/<layer>/<name>, in the shape that PyTorch gives it. The root's attribute `model` holds
/// the model's name, `elements` the number of all values.
class WeightsFile {
 public:
  /// A new file, at first under another name. Throws RunError.
  WeightsFile(std::string file, const model::Model& model, tensor::DType dtype);
  /// All tensors of these layers, out of `state` by their full names.
  void add(std::span<const model::Layer> layers, const tensor::StateDict& state);
  /// Closes the file and gives it its name.
  void complete();

 private:
  std::string file_, partial_;
  tensor::DType dtype_;
  io::File h5_;
};

/// Writes the weights that the stages of a run hold, each rank's own in `own`, to `file` on rank 0.
/// Collective.
void save_weights(const std::string& file, const model::Model& model, const plan::Plan& plan,
                  tensor::DType dtype, const tensor::StateDict& own, comm::World& world);

/// Throws InputError unless a file of that name can be made. Leaves what is there as it is.
void require_writable(const std::string& file);

/// A file of weights, or the index of a checkpoint (of a folder of them: the newest), whose files
/// are checked first. Throws InputError.
io::File open_weights(const std::string& place);
/// The tensors of `layers` in an open file, of whatever model. Throws InputError naming the tensor
/// that is missing, of another shape or no number.
tensor::StateDict read_layers(const io::File& file, std::span<const model::Layer> layers);
/// Throws what `read_layers` would, without reading values.
void check_layer(const io::File& file, const model::Layer& layer);

/// The tensors of `layers`, which are some of the model's; `file` may be a checkpoint. Throws
/// InputError naming file and tensor where one is missing, of another shape or no number, and where
/// the file is of another model.
tensor::StateDict read_weights(const std::string& file, const model::Model& model,
                               std::span<const model::Layer> layers);

}  // namespace dynpipe::app
