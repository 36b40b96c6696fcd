#pragma once

#include "nn/layer.hpp"

/// The rows of the table of layer types. Each is defined in the file of its layer.
namespace dynpipe::nn::layers {

LayerType avgpool();
LayerType batchnorm2d();
LayerType conv2d();
LayerType dropout();
LayerType flatten();
LayerType global_avgpool();
LayerType linear();
LayerType maxpool();
LayerType relu();
LayerType residual();

}  // namespace dynpipe::nn::layers
