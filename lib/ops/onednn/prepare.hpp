#pragma once

#include "ops/onednn/layouts.hpp"
#include "ops/onednn/prepared_call.hpp"

/// One function for each primitive in use: it chooses the layouts and declares the operands, under
/// the library's argument numbers. Only shapes and layouts of the tensors are read.
namespace dynpipe::ops::onednn {

/// SRC, WEIGHTS, BIAS unless b is empty, DST.
PreparedCall prepare_convolution(const dnnl::engine&, const Layouts&, const Window&,
                                 const Tensor& x, const Tensor& w, const Tensor& b,
                                 const Tensor& y);
/// DIFF_DST, WEIGHTS, DIFF_SRC.
PreparedCall prepare_convolution_backward_input(const dnnl::engine&, const Layouts&, const Window&,
                                                const Tensor& dy, const Tensor& w,
                                                const Tensor& dx);
/// DIFF_DST, SRC, DIFF_WEIGHTS, DIFF_BIAS unless db is empty.
PreparedCall prepare_convolution_backward_weights(const dnnl::engine&, const Layouts&,
                                                  const Window&, const Tensor& dy, const Tensor& x,
                                                  Accumulate, const Tensor& dw, const Tensor& db);

/// SRC, SCALE, SHIFT, DST, MEAN, VARIANCE.
PreparedCall prepare_batchnorm(const dnnl::engine&, const Layouts&, double epsilon,
                               const Tensor& x);
/// DIFF_DST, SRC, MEAN, VARIANCE, SCALE, SHIFT, DIFF_SRC, DIFF_SCALE, DIFF_SHIFT. The value of
/// SHIFT is not used.
PreparedCall prepare_batchnorm_backward(const dnnl::engine&, const Layouts&, double epsilon,
                                        const Tensor& x, Accumulate);

/// FROM, TO.
PreparedCall prepare_reorder(const dnnl::engine&, const dnnl::memory::desc& from,
                             const dnnl::memory::desc& to);

}  // namespace dynpipe::ops::onednn
