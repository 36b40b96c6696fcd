#include "ops/onednn/descriptors.hpp"

namespace dynpipe::ops::onednn {
namespace {

using dnnl::algorithm;
using dnnl::batch_normalization_backward;
using dnnl::batch_normalization_forward;
using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::engine;
using dnnl::memory;
using dnnl::primitive_attr;
using dnnl::prop_kind;

constexpr auto k_direct = algorithm::convolution_direct;
const auto k_norm_flags =
    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

primitive_attr callers_scratchpad() {
  primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

memory::dims strides(const Window& window) {
  return {window.stride_h, window.stride_w};
}
memory::dims padding(const Window& window) {
  return {window.pad_h, window.pad_w};
}

}  // namespace

#if DNNL_VERSION_MAJOR >= 3

convolution_forward::primitive_desc describe_convolution(const engine& cpu, const Window& window,
                                                         const ConvolutionOperands& operands) {
  return {cpu,
          prop_kind::forward_training,
          k_direct,
          operands.x,
          operands.w,
          operands.b,
          operands.y,
          strides(window),
          padding(window),
          padding(window),
          callers_scratchpad()};
}

convolution_backward_data::primitive_desc describe_convolution_backward_input(
    const engine& cpu, const Window& window, const ConvolutionOperands& operands) {
  return {cpu,
          k_direct,
          operands.x,
          operands.w,
          operands.y,
          strides(window),
          padding(window),
          padding(window),
          describe_convolution(cpu, window, operands),
          callers_scratchpad()};
}

convolution_backward_weights::primitive_desc describe_convolution_backward_weights(
    const engine& cpu, const Window& window, const ConvolutionOperands& operands) {
  return {cpu,
          k_direct,
          operands.x,
          operands.w,
          operands.b,
          operands.y,
          strides(window),
          padding(window),
          padding(window),
          describe_convolution(cpu, window, operands),
          callers_scratchpad()};
}

batch_normalization_forward::primitive_desc describe_batchnorm(const engine& cpu, double epsilon,
                                                               const memory::desc& images) {
  return {cpu,          prop_kind::forward_training, images, images, static_cast<float>(epsilon),
          k_norm_flags, callers_scratchpad()};
}

batch_normalization_backward::primitive_desc describe_batchnorm_backward(
    const engine& cpu, double epsilon, const memory::desc& images) {
  return {cpu,
          prop_kind::backward,
          images,
          images,
          images,
          static_cast<float>(epsilon),
          k_norm_flags,
          describe_batchnorm(cpu, epsilon, images),
          callers_scratchpad()};
}

#else

convolution_forward::primitive_desc describe_convolution(const engine& cpu, const Window& window,
                                                         const ConvolutionOperands& operands) {
  return {{prop_kind::forward_training, k_direct, operands.x, operands.w, operands.b, operands.y,
           strides(window), padding(window), padding(window)},
          callers_scratchpad(),
          cpu};
}

convolution_backward_data::primitive_desc describe_convolution_backward_input(
    const engine& cpu, const Window& window, const ConvolutionOperands& operands) {
  return {{k_direct, operands.x, operands.w, operands.y, strides(window), padding(window),
           padding(window)},
          callers_scratchpad(),
          cpu,
          describe_convolution(cpu, window, operands)};
}

convolution_backward_weights::primitive_desc describe_convolution_backward_weights(
    const engine& cpu, const Window& window, const ConvolutionOperands& operands) {
  return {{k_direct, operands.x, operands.w, operands.b, operands.y, strides(window),
           padding(window), padding(window)},
          callers_scratchpad(),
          cpu,
          describe_convolution(cpu, window, operands)};
}

batch_normalization_forward::primitive_desc describe_batchnorm(const engine& cpu, double epsilon,
                                                               const memory::desc& images) {
  return {{prop_kind::forward_training, images, static_cast<float>(epsilon), k_norm_flags},
          callers_scratchpad(),
          cpu};
}

batch_normalization_backward::primitive_desc describe_batchnorm_backward(
    const engine& cpu, double epsilon, const memory::desc& images) {
  return {{prop_kind::backward, images, images, static_cast<float>(epsilon), k_norm_flags},
          callers_scratchpad(),
          cpu,
          describe_batchnorm(cpu, epsilon, images)};
}

#endif

dnnl::reorder::primitive_desc describe_reorder(const engine& cpu, const memory::desc& from,
                                               const memory::desc& to, bool add) {
  primitive_attr attributes = callers_scratchpad();
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return {cpu, from, cpu, to, attributes};
}

}  // namespace dynpipe::ops::onednn
