#pragma once

#include "model/field_reader.hpp"
#include "nn/layer.hpp"

namespace dynpipe::nn::layers {

/// The fields "kernel", "stride" and "padding" of convolutions (stride 1 by default).
ops::Window read_convolution_window(model::FieldReader& fields);
/// The same of poolings (stride as the kernel by default). As in PyTorch, padding is at most half
/// of the kernel, so that no window lies wholly in it.
ops::Window read_pooling_window(model::FieldReader& fields);

/// [channels,H',W']: what the window makes of `input` [C,H,W]. Throws InputError where it does not
/// fit.
Shape windowed_shape(const model::LayerSpec& spec, const ops::Window& window, const Shape& input,
                     std::int64_t channels);

}  // namespace dynpipe::nn::layers
