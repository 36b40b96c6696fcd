#pragma once

#include "ops/onednn/prepared_call.hpp"
#include "ops/ops.hpp"

/// Convolutions as one product of matrices, for weights that are large beside their images: the
/// library's direct kernels then read all weights for every image, at a third of a product's speed.
///
/// Images x [N,C,H,W] and y [N,O,H',W'] are blocked; the windows of some samples become the rows of
/// a matrix [N' H' W', KH KW C], and weights in Layout::rows are the other factor, [O, KH KW C].
namespace dynpipe::ops::onednn {

/// Whether a convolution with weights [O,C,KH,KW] had rather be a product.
bool better_as_product(const base::Shape& w);

/// Channels lie in blocks of `block`. Scratch memory holds the rows of as many samples as make a
/// product worth its while, not of all.
void convolution_product(std::int64_t block, Scratch& scratch, const Window& window,
                         const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
                         Activation activation);
void convolution_product_backward_input(std::int64_t block, Scratch& scratch, const Window& window,
                                        const Tensor& dy, const Tensor& w, const Tensor& dx);
void convolution_product_backward_weights(std::int64_t block, Scratch& scratch,
                                          const Window& window, const Tensor& dy, const Tensor& x,
                                          Accumulate accumulate, const Tensor& dw,
                                          const Tensor& db);

}  // namespace dynpipe::ops::onednn
