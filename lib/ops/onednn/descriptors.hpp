#pragma once

#include <dnnl.hpp>

#include "ops/ops.hpp"

/// Primitive descriptors, made the same way under versions 2 and 3 of oneDNN, whose constructors
/// differ. All leave the scratchpad to the caller, so that a primitive may run on another thread
/// than made it.
namespace dynpipe::ops::onednn {

/// The operands' layouts, `any` where the library may choose. Bias may be empty.
struct ConvolutionOperands {
  dnnl::memory::desc x, w, b, y;
};

dnnl::convolution_forward::primitive_desc describe_convolution(const dnnl::engine&, const Window&,
                                                               const ConvolutionOperands&);
/// dx, w and dy in the operands' places of x, w and y.
dnnl::convolution_backward_data::primitive_desc describe_convolution_backward_input(
    const dnnl::engine&, const Window&, const ConvolutionOperands&);
/// x, dw, db and dy in the operands' places of x, w, b and y.
dnnl::convolution_backward_weights::primitive_desc describe_convolution_backward_weights(
    const dnnl::engine&, const Window&, const ConvolutionOperands&);

/// x and y have the layout `images`; scale and shift are operands of their own.
dnnl::batch_normalization_forward::primitive_desc describe_batchnorm(
    const dnnl::engine&, double epsilon, const dnnl::memory::desc& images);
/// dx, dy and x have the layout `images`.
dnnl::batch_normalization_backward::primitive_desc describe_batchnorm_backward(
    const dnnl::engine&, double epsilon, const dnnl::memory::desc& images);

/// Adds to what is at the destination where `add`.
dnnl::reorder::primitive_desc describe_reorder(const dnnl::engine&, const dnnl::memory::desc& from,
                                               const dnnl::memory::desc& to, bool add);

}  // namespace dynpipe::ops::onednn
