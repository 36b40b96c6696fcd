#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "model/model.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// Writes the next microbatch of images into x [N, input of the model], plain.
using WriteImages = std::function<void(const tensor::Tensor& x)>;

/// Pictures of black with brighter rectangles, flat as most of the real ones are, normalised as
/// those of a data set would be: more than caches hold, in an order that nobody foresees.
WriteImages made_up_images(const base::Shape& image, std::uint64_t seed);

/// The training images of a data set, normalised, in an order of their own; of an HDF5 file some
/// blocks. Throws InputError naming what is wrong with `place`, or with images that are not the
/// model's.
WriteImages training_images(const std::string& place, const model::Model& model,
                            std::uint64_t seed);

}  // namespace dynpipe::app
