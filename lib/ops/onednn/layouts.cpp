#include "ops/onednn/layouts.hpp"

#include "ops/onednn/descriptors.hpp"

namespace dynpipe::ops::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::dims dims(const base::Shape& shape) {
  memory::dims result;
  for (int axis = 0; axis < shape.rank(); ++axis) result.push_back(shape[axis]);
  return result;
}

memory::desc described(const memory::dims& dims, Tag order) {
  return {dims, memory::data_type::f32, order};
}

}  // namespace

Layouts::Layouts(const dnnl::engine& cpu) : block_(0) {
  const memory::dims images{1, 64, 16, 16}, weights{64, 64, 3, 3}, bias{64};
  const Window window{.kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const memory::desc chosen =
      describe_convolution(cpu, window,
                           {described(images, Tag::any), described(weights, Tag::any),
                            described(bias, Tag::a), described(images, Tag::any)})
          .src_desc();
  if (chosen == described(images, Tag::nChw8c)) block_ = 8;
  if (chosen == described(images, Tag::nChw16c)) block_ = 16;
}

memory::desc Layouts::images(const Tensor& x) const {
  const Tag blocked = block_ == 16 ? Tag::nChw16c : Tag::nChw8c;
  return described(dims(x.shape), x.layout == Layout::blocked ? blocked : Tag::nchw);
}

memory::desc Layouts::any(const Tensor& x) const {
  return described(dims(x.shape), Tag::any);
}

memory::desc Layouts::channels_last(const Tensor& x) const {
  return described(dims(x.shape), Tag::nhwc);
}

memory::desc Layouts::weights(const Tensor& w) const {
  const bool sixteen = block_ == 16;
  switch (w.layout) {
    case Layout::plain:
      break;
    case Layout::blocked:
      return described(dims(w.shape), sixteen ? Tag::OIhw16i16o : Tag::OIhw8i8o);
    case Layout::transposed:
      return described(dims(w.shape), sixteen ? Tag::OIhw16o16i : Tag::OIhw8o8i);
    case Layout::rows:
      return described(dims(w.shape), Tag::ohwi);
  }
  return described(dims(w.shape), Tag::oihw);
}

memory::desc Layouts::vector(std::int64_t size) const {
  return described({size}, Tag::a);
}

}  // namespace dynpipe::ops::onednn
