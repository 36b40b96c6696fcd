#include "ops/onednn/onednn_ops.hpp"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/errors.hpp"
#include "ops/onednn/blocked_images.hpp"
#include "ops/onednn/image_products.hpp"
#include "ops/onednn/prepare.hpp"
#include "ops/onednn/products.hpp"

namespace dynpipe::ops::onednn {
namespace {

/// Launches `work` on one thread, the stream's own, with the libraries' refusals turned into ours.
/// Whoever wants more threads of OpenMP (`run`) asks for them inside.
template <typename Work>
void launch_on_one_thread(Stream& stream, Work work) {
  device::launch(stream, [work = std::move(work)] {
    omp_set_num_threads(1);  // a setting of the calling thread, which is the stream's own
    try {
      work();
    } catch (const dnnl::error& refusal) {
      throw base::RunError(std::string("oneDNN: ") + refusal.what());
    }
  });
}

bool blocked(const Tensor& x) {
  return x.layout == Layout::blocked;
}

bool as_product(const Tensor& weights) {
  return weights.layout == Layout::rows;
}

void zero(const Tensor& x) {
  std::fill_n(x.as<float>(), x.elements(), 0.0F);
}

}  // namespace

enum class OnednnOps::Kind : std::int64_t {
  reorder,
  reorder_weights,
  conv2d,
  conv2d_backward_input,
  conv2d_backward_weights,
  batchnorm,
  batchnorm_backward_set,
  batchnorm_backward_add,
};

OnednnOps::OnednnOps(int threads)
    : threads_(threads), cpu_(dnnl::engine::kind::cpu, 0), queue_(cpu_), layouts_(cpu_) {
  openblas_set_num_threads(threads);
}

OnednnOps::Key OnednnOps::key(Kind kind, std::int64_t variant, const Window& window,
                              std::initializer_list<const Tensor*> tensors) {
  Key key{static_cast<std::int64_t>(kind),
          variant,
          window.kernel_h,
          window.kernel_w,
          window.stride_h,
          window.stride_w,
          window.pad_h,
          window.pad_w};
  std::size_t next = 8;
  for (const Tensor* tensor : tensors) {
    for (int axis = 0; axis < tensor->shape.rank(); ++axis) key[next++] = tensor->shape[axis];
    key[next++] = static_cast<std::int64_t>(tensor->layout);
  }
  return key;
}

std::size_t OnednnOps::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, a whole word at a time
  for (const std::int64_t part : key) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x100000001b3ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

template <typename Prepare>
void OnednnOps::run(const Key& key, Prepare prepare,
                    std::initializer_list<PreparedCall::Binding> bindings) {
  auto call = calls_.find(key);
  omp_set_num_threads(threads_);  // before `prepare`: primitives are cut for a number of threads
  if (call == calls_.end()) call = calls_.emplace(key, prepare()).first;
  call->second.run(queue_, scratch_, bindings);
}

Layout OnednnOps::preferred_layout(const base::Shape& sample) const {
  const bool fits = sample.rank() == 3 && layouts_.block() > 0 && sample[0] % layouts_.block() == 0;
  return fits ? Layout::blocked : Layout::plain;
}

void OnednnOps::reorder(Stream& stream, const Tensor& x, const Tensor& y) {
  if (x.layout == y.layout) return ReferenceOps::reorder(stream, x, y);
  launch_on_one_thread(stream, [=, this] {
    if (x.shape[0] == 0) return;
    run(key(Kind::reorder, 0, {}, {&x, &y}),
        [&] { return prepare_reorder(cpu_, layouts_.images(x), layouts_.images(y)); },
        {{DNNL_ARG_FROM, x.data}, {DNNL_ARG_TO, y.data}});
  });
}

Layout OnednnOps::preferred_weights_layout(const Window&, const base::Shape& w, Layout x,
                                           Layout y) const {
  if (x != Layout::blocked || y != Layout::blocked) return Layout::plain;
  return better_as_product(w) ? Layout::rows : Layout::blocked;
}

Layout OnednnOps::backward_weights_layout(Layout layout) const {
  return layout == Layout::blocked ? Layout::transposed : layout;
}

void OnednnOps::reorder_weights(Stream& stream, const Tensor& w, const Tensor& y) {
  if (w.layout == y.layout) return ReferenceOps::reorder_weights(stream, w, y);
  launch_on_one_thread(stream, [=, this] {
    run(key(Kind::reorder_weights, 0, {}, {&w, &y}),
        [&] { return prepare_reorder(cpu_, layouts_.weights(w), layouts_.weights(y)); },
        {{DNNL_ARG_FROM, w.data}, {DNNL_ARG_TO, y.data}});
  });
}

void OnednnOps::conv2d(Stream& stream, const Window& window, const Tensor& x, const Tensor& w,
                       const Tensor& b, const Tensor& y, Activation activation) {
  launch_on_one_thread(stream, [=, this] {
    if (x.shape[0] == 0) return;
    if (as_product(w)) {
      return convolution_product(layouts_.block(), scratch_, window, x, w, b, y, activation);
    }
    run(key(Kind::conv2d, b ? 1 : 0, window, {&x, &w, &y}),
        [&] { return prepare_convolution(cpu_, layouts_, window, x, w, b, y); },
        {{DNNL_ARG_SRC, x.data},
         {DNNL_ARG_WEIGHTS, w.data},
         {DNNL_ARG_BIAS, b.data},
         {DNNL_ARG_DST, y.data}});
    // The library's own fused relu makes NaN disappear.
    reference::activate<float>(activation, y);
  });
}

void OnednnOps::conv2d_backward_input(Stream& stream, const Window& window, const Tensor& dy,
                                      const Tensor& w, const Tensor& dx) {
  launch_on_one_thread(stream, [=, this] {
    if (dy.shape[0] == 0) return;
    if (as_product(w)) {
      return convolution_product_backward_input(layouts_.block(), scratch_, window, dy, w, dx);
    }
    run(key(Kind::conv2d_backward_input, 0, window, {&dy, &w, &dx}),
        [&] { return prepare_convolution_backward_input(cpu_, layouts_, window, dy, w, dx); },
        {{DNNL_ARG_DIFF_DST, dy.data}, {DNNL_ARG_WEIGHTS, w.data}, {DNNL_ARG_DIFF_SRC, dx.data}});
  });
}

void OnednnOps::conv2d_backward_weights(Stream& stream, const Window& window, const Tensor& dy,
                                        const Tensor& x, Accumulate accumulate, const Tensor& dw,
                                        const Tensor& db) {
  launch_on_one_thread(stream, [=, this] {
    if (dy.shape[0] == 0) {
      if (accumulate == Accumulate::add) return;
      zero(dw);
      if (db) zero(db);
      return;
    }
    if (as_product(dw)) {
      return convolution_product_backward_weights(layouts_.block(), scratch_, window, dy, x,
                                                  accumulate, dw, db);
    }
    const std::int64_t variant = (db ? 2 : 0) + (accumulate == Accumulate::add ? 1 : 0);
    run(key(Kind::conv2d_backward_weights, variant, window, {&dy, &x, &dw}),
        [&] {
          return prepare_convolution_backward_weights(cpu_, layouts_, window, dy, x, accumulate, dw,
                                                      db);
        },
        {{DNNL_ARG_DIFF_DST, dy.data},
         {DNNL_ARG_SRC, x.data},
         {DNNL_ARG_DIFF_WEIGHTS, dw.data},
         {DNNL_ARG_DIFF_BIAS, db.data}});
  });
}

void OnednnOps::linear(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y) {
  launch_on_one_thread(stream, [=] { onednn::linear(x, w, b, y); });
}

void OnednnOps::linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& w,
                                      const Tensor& dx) {
  launch_on_one_thread(stream, [=] { onednn::linear_backward_input(dy, w, dx); });
}

void OnednnOps::linear_backward_weights(Stream& stream, const Tensor& dy, const Tensor& x,
                                        Accumulate accumulate, const Tensor& dw, const Tensor& db) {
  launch_on_one_thread(stream, [=] { onednn::linear_backward_weights(dy, x, accumulate, dw, db); });
}

void OnednnOps::batchnorm(Stream& stream, double epsilon, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& y, const Tensor& mean,
                          const Tensor& variance, Activation activation) {
  // The library is slower than the reference in the plain layout.
  if (!blocked(x)) {
    return ReferenceOps::batchnorm(stream, epsilon, x, gamma, beta, y, mean, variance, activation);
  }
  launch_on_one_thread(stream, [=, this] {
    run(key(Kind::batchnorm, std::bit_cast<std::int64_t>(epsilon), {}, {&x}),
        [&] { return prepare_batchnorm(cpu_, layouts_, epsilon, x); },
        {{DNNL_ARG_SRC, x.data},
         {DNNL_ARG_SCALE, gamma.data},
         {DNNL_ARG_SHIFT, beta.data},
         {DNNL_ARG_DST, y.data},
         {DNNL_ARG_MEAN, mean.data},
         {DNNL_ARG_VARIANCE, variance.data}});
    reference::activate<float>(activation, y);
  });
}

void OnednnOps::batchnorm_inference(Stream& stream, double epsilon, const Tensor& x,
                                    const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                                    const Tensor& variance, const Tensor& y,
                                    Activation activation) {
  if (!blocked(x)) {
    return ReferenceOps::batchnorm_inference(stream, epsilon, x, gamma, beta, mean, variance, y,
                                             activation);
  }
  launch_on_one_thread(stream, [=, this] {
    with_block(layouts_.block(), [&](auto block) {
      onednn::batchnorm_inference<block>(epsilon, x, gamma, beta, mean, variance, y);
    });
    reference::activate<float>(activation, y);
  });
}

void OnednnOps::batchnorm_backward(Stream& stream, double epsilon, const Tensor& dy,
                                   const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                   const Tensor& variance, const Tensor& dx, Accumulate accumulate,
                                   const Tensor& dgamma, const Tensor& dbeta) {
  if (!blocked(x)) {
    return ReferenceOps::batchnorm_backward(stream, epsilon, dy, x, gamma, mean, variance, dx,
                                            accumulate, dgamma, dbeta);
  }
  launch_on_one_thread(stream, [=, this] {
    if (x.shape[0] == 0) {
      if (accumulate == Accumulate::add) return;
      zero(dgamma);
      zero(dbeta);
      return;
    }
    const Kind kind =
        accumulate == Accumulate::add ? Kind::batchnorm_backward_add : Kind::batchnorm_backward_set;
    run(key(kind, std::bit_cast<std::int64_t>(epsilon), {}, {&x}),
        [&] { return prepare_batchnorm_backward(cpu_, layouts_, epsilon, x, accumulate); },
        {{DNNL_ARG_DIFF_DST, dy.data},
         {DNNL_ARG_SRC, x.data},
         {DNNL_ARG_MEAN, mean.data},
         {DNNL_ARG_VARIANCE, variance.data},
         {DNNL_ARG_SCALE, gamma.data},
         {DNNL_ARG_SHIFT, gamma.data},
         {DNNL_ARG_DIFF_SRC, dx.data},
         {DNNL_ARG_DIFF_SCALE, dgamma.data},
         {DNNL_ARG_DIFF_SHIFT, dbeta.data}});
  });
}

void OnednnOps::maxpool(Stream& stream, const Window& window, const Tensor& x, const Tensor& y,
                        std::byte* choice) {
  if (!blocked(x)) return ReferenceOps::maxpool(stream, window, x, y, choice);
  launch_on_one_thread(stream, [=, this] {
    with_block(layouts_.block(), [&](auto block) { onednn::maxpool<block>(window, x, y, choice); });
  });
}

void OnednnOps::maxpool_backward(Stream& stream, const Window& window, const Tensor& dy,
                                 const std::byte* choice, const Tensor& dx) {
  if (!blocked(dy)) return ReferenceOps::maxpool_backward(stream, window, dy, choice, dx);
  launch_on_one_thread(stream, [=, this] {
    with_block(layouts_.block(),
               [&](auto block) { onednn::maxpool_backward<block>(window, dy, choice, dx); });
  });
}

void OnednnOps::avgpool(Stream& stream, const Window& window, const Tensor& x, const Tensor& y) {
  if (!blocked(x)) return ReferenceOps::avgpool(stream, window, x, y);
  launch_on_one_thread(stream, [=, this] {
    with_block(layouts_.block(), [&](auto block) { onednn::avgpool<block>(window, x, y); });
  });
}

void OnednnOps::avgpool_backward(Stream& stream, const Window& window, const Tensor& dy,
                                 const Tensor& dx) {
  if (!blocked(dy)) return ReferenceOps::avgpool_backward(stream, window, dy, dx);
  launch_on_one_thread(stream, [=, this] {
    with_block(layouts_.block(),
               [&](auto block) { onednn::avgpool_backward<block>(window, dy, dx); });
  });
}

void OnednnOps::dropout(Stream& stream, double p, const base::Philox& key,
                        std::span<const std::uint64_t> samples, const Tensor& x, const Tensor& y) {
  if (!blocked(x)) return ReferenceOps::dropout(stream, p, key, samples, x, y);
  launch_on_one_thread(stream, [=, this] {
    with_block(layouts_.block(),
               [&](auto block) { onednn::dropout<block>(p, key, samples, x, y); });
  });
}

}  // namespace dynpipe::ops::onednn

namespace dynpipe::ops {

std::unique_ptr<Ops> make_onednn_ops(int threads) {
  return std::make_unique<onednn::OnednnOps>(threads);
}

}  // namespace dynpipe::ops
