#include "nn/layers/window.hpp"

#include <fmt/format.h>

namespace dynpipe::nn::layers {
namespace {

ops::Window read_window(model::FieldReader& fields, bool stride_is_kernel) {
  const model::HeightWidth kernel = fields.required_pair("kernel", 1);
  const model::HeightWidth stride =
      fields.optional_pair("stride", stride_is_kernel ? kernel : model::HeightWidth{1, 1}, 1);
  const model::HeightWidth padding = fields.optional_pair("padding", {0, 0}, 0);
  return {.kernel_h = kernel.h,
          .kernel_w = kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .pad_h = padding.h,
          .pad_w = padding.w};
}

}  // namespace

ops::Window read_convolution_window(model::FieldReader& fields) {
  const ops::Window window = read_window(fields, false);
  if (window.pad_h >= window.kernel_h || window.pad_w >= window.kernel_w) {
    fields.refuse("padding",
                  fmt::format("must be smaller than the kernel [{},{}], is [{},{}]",
                              window.kernel_h, window.kernel_w, window.pad_h, window.pad_w));
  }
  return window;
}

ops::Window read_pooling_window(model::FieldReader& fields) {
  const ops::Window window = read_window(fields, true);
  if (2 * window.pad_h > window.kernel_h || 2 * window.pad_w > window.kernel_w) {
    fields.refuse("padding",
                  fmt::format("must be at most half of the kernel [{},{}], is [{},{}]",
                              window.kernel_h, window.kernel_w, window.pad_h, window.pad_w));
  }
  return window;
}

Shape windowed_shape(const model::LayerSpec& spec, const ops::Window& window, const Shape& input,
                     std::int64_t channels) {
  const std::int64_t h = input[1], w = input[2];
  if (window.kernel_h > h + 2 * window.pad_h || window.kernel_w > w + 2 * window.pad_w) {
    model::FieldReader(spec).refuse(
        "kernel",
        fmt::format("[{},{}] does not fit the input {} with padding [{},{}]", window.kernel_h,
                    window.kernel_w, input.to_string(), window.pad_h, window.pad_w));
  }
  return {channels, window.output_h(h), window.output_w(w)};
}

}  // namespace dynpipe::nn::layers
