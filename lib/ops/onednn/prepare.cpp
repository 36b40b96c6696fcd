#include "ops/onednn/prepare.hpp"

#include "ops/onednn/descriptors.hpp"

namespace dynpipe::ops::onednn {

using dnnl::memory;

PreparedCall prepare_convolution(const dnnl::engine& cpu, const Layouts& layouts,
                                 const Window& window, const Tensor& x, const Tensor& w,
                                 const Tensor& b, const Tensor& y) {
  const memory::desc bias = b ? layouts.vector(b.shape[0]) : memory::desc();
  const auto chosen =
      describe_convolution(cpu, window, {layouts.any(x), layouts.any(w), bias, layouts.any(y)});
  PreparedCall call(cpu, dnnl::convolution_forward(chosen), chosen.scratchpad_desc());
  call.input(DNNL_ARG_SRC, layouts.images(x), chosen.src_desc());
  call.input(DNNL_ARG_WEIGHTS, layouts.weights(w), chosen.weights_desc());
  if (b) call.input(DNNL_ARG_BIAS, bias, bias);
  call.output(DNNL_ARG_DST, layouts.images(y), chosen.dst_desc());
  return call;
}

PreparedCall prepare_convolution_backward_input(const dnnl::engine& cpu, const Layouts& layouts,
                                                const Window& window, const Tensor& dy,
                                                const Tensor& w, const Tensor& dx) {
  const auto chosen = describe_convolution_backward_input(
      cpu, window, {layouts.any(dx), layouts.any(w), memory::desc(), layouts.any(dy)});
  PreparedCall call(cpu, dnnl::convolution_backward_data(chosen), chosen.scratchpad_desc());
  call.input(DNNL_ARG_DIFF_DST, layouts.images(dy), chosen.diff_dst_desc());
  call.input(DNNL_ARG_WEIGHTS, layouts.weights(w), chosen.weights_desc());
  call.output(DNNL_ARG_DIFF_SRC, layouts.images(dx), chosen.diff_src_desc());
  return call;
}

PreparedCall prepare_convolution_backward_weights(const dnnl::engine& cpu, const Layouts& layouts,
                                                  const Window& window, const Tensor& dy,
                                                  const Tensor& x, Accumulate accumulate,
                                                  const Tensor& dw, const Tensor& db) {
  const memory::desc weights = layouts.weights(dw);
  const memory::desc bias = db ? layouts.vector(db.shape[0]) : memory::desc();
  auto chosen = describe_convolution_backward_weights(
      cpu, window, {layouts.any(x), layouts.any(dw), bias, layouts.any(dy)});
  const std::size_t channels_padded_bytes = chosen.src_desc().get_size();
  // Not with 1x1 kernels: with a stride and few channels, the library's are wrong in this layout.
  if (channels_padded_bytes > x.bytes() && window.kernel_h * window.kernel_w > 1) {
    // Channels filled up to a block waste most of the work where they are few: 1 input channel runs
    // at 6-8 GFLOP/s in blocks and at 20-40 with the channels innermost; 2 to 20 gain 1.2-2 times.
    chosen = describe_convolution_backward_weights(
        cpu, window, {layouts.channels_last(x), layouts.any(dw), bias, layouts.channels_last(dy)});
  }
  const bool add = accumulate == Accumulate::add;
  PreparedCall call(cpu, dnnl::convolution_backward_weights(chosen), chosen.scratchpad_desc());
  call.input(DNNL_ARG_DIFF_DST, layouts.images(dy), chosen.diff_dst_desc());
  call.input(DNNL_ARG_SRC, layouts.images(x), chosen.src_desc());
  call.output(DNNL_ARG_DIFF_WEIGHTS, weights, chosen.diff_weights_desc(), add);
  if (db) call.output(DNNL_ARG_DIFF_BIAS, bias, bias, add);
  return call;
}

PreparedCall prepare_batchnorm(const dnnl::engine& cpu, const Layouts& layouts, double epsilon,
                               const Tensor& x) {
  const memory::desc images = layouts.images(x), channels = layouts.vector(x.shape[1]);
  const auto description = describe_batchnorm(cpu, epsilon, images);
  PreparedCall call(cpu, dnnl::batch_normalization_forward(description),
                    description.scratchpad_desc());
  call.input(DNNL_ARG_SRC, images, images);
  call.input(DNNL_ARG_SCALE, channels, channels);
  call.input(DNNL_ARG_SHIFT, channels, channels);
  call.output(DNNL_ARG_DST, images, images);
  call.output(DNNL_ARG_MEAN, channels, channels);
  call.output(DNNL_ARG_VARIANCE, channels, channels);
  return call;
}

PreparedCall prepare_batchnorm_backward(const dnnl::engine& cpu, const Layouts& layouts,
                                        double epsilon, const Tensor& x, Accumulate accumulate) {
  const memory::desc images = layouts.images(x), channels = layouts.vector(x.shape[1]);
  const auto description = describe_batchnorm_backward(cpu, epsilon, images);
  const bool add = accumulate == Accumulate::add;
  PreparedCall call(cpu, dnnl::batch_normalization_backward(description),
                    description.scratchpad_desc());
  call.input(DNNL_ARG_DIFF_DST, images, images);
  call.input(DNNL_ARG_SRC, images, images);
  call.input(DNNL_ARG_MEAN, channels, channels);
  call.input(DNNL_ARG_VARIANCE, channels, channels);
  call.input(DNNL_ARG_SCALE, channels, channels);
  call.input(DNNL_ARG_SHIFT, channels, channels);
  call.output(DNNL_ARG_DIFF_SRC, images, images);
  call.output(DNNL_ARG_DIFF_SCALE, channels, channels, add);
  call.output(DNNL_ARG_DIFF_SHIFT, channels, channels, add);
  return call;
}

PreparedCall prepare_reorder(const dnnl::engine& cpu, const memory::desc& from,
                             const memory::desc& to) {
  const auto description = describe_reorder(cpu, from, to, false);
  PreparedCall call(cpu, dnnl::reorder(description), description.scratchpad_desc());
  call.input(DNNL_ARG_FROM, from, from);
  call.output(DNNL_ARG_TO, to, to);
  return call;
}

}  // namespace dynpipe::ops::onednn
