#include "ops/reference/reference_ops.hpp"

#include <stdexcept>
#include <type_traits>

#include "ops/reference/batchnorm.hpp"
#include "ops/reference/convolution.hpp"
#include "ops/reference/elementwise.hpp"
#include "ops/reference/linear.hpp"
#include "ops/reference/loss.hpp"
#include "ops/reference/optimizers.hpp"
#include "ops/reference/pooling.hpp"

namespace dynpipe::ops {

using device::launch;

template <typename T>
DType ReferenceOps<T>::dtype() const {
  return std::is_same_v<T, float> ? DType::float32 : DType::float64;
}

template <typename T>
void ReferenceOps<T>::reorder(Stream& stream, const Tensor& x, const Tensor& y) {
  launch(stream, [=] { reference::copy(x, y); });
}

template <typename T>
void ReferenceOps<T>::reorder_weights(Stream& stream, const Tensor& w, const Tensor& y) {
  launch(stream, [=] { reference::copy(w, y); });
}

template <typename T>
void ReferenceOps<T>::conv2d(Stream& stream, const Window& window, const Tensor& x, const Tensor& w,
                             const Tensor& b, const Tensor& y, Activation activation) {
  launch(stream, [=] {
    reference::conv2d<T>(window, x, w, b, y);
    reference::activate<T>(activation, y);
  });
}

template <typename T>
void ReferenceOps<T>::conv2d_backward_input(Stream& stream, const Window& window, const Tensor& dy,
                                            const Tensor& w, const Tensor& dx) {
  launch(stream, [=] { reference::conv2d_backward_input<T>(window, dy, w, dx); });
}

template <typename T>
void ReferenceOps<T>::conv2d_backward_weights(Stream& stream, const Window& window,
                                              const Tensor& dy, const Tensor& x,
                                              Accumulate accumulate, const Tensor& dw,
                                              const Tensor& db) {
  launch(stream, [=] { reference::conv2d_backward_weights<T>(window, dy, x, accumulate, dw, db); });
}

template <typename T>
void ReferenceOps<T>::linear(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b,
                             const Tensor& y) {
  launch(stream, [=] { reference::linear<T>(x, w, b, y); });
}

template <typename T>
void ReferenceOps<T>::linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& w,
                                            const Tensor& dx) {
  launch(stream, [=] { reference::linear_backward_input<T>(dy, w, dx); });
}

template <typename T>
void ReferenceOps<T>::linear_backward_weights(Stream& stream, const Tensor& dy, const Tensor& x,
                                              Accumulate accumulate, const Tensor& dw,
                                              const Tensor& db) {
  launch(stream, [=] { reference::linear_backward_weights<T>(dy, x, accumulate, dw, db); });
}

template <typename T>
void ReferenceOps<T>::batchnorm(Stream& stream, double epsilon, const Tensor& x,
                                const Tensor& gamma, const Tensor& beta, const Tensor& y,
                                const Tensor& mean, const Tensor& variance, Activation activation) {
  launch(stream, [=] {
    reference::batchnorm<T>(epsilon, x, gamma, beta, y, mean, variance);
    reference::activate<T>(activation, y);
  });
}

template <typename T>
void ReferenceOps<T>::batchnorm_inference(Stream& stream, double epsilon, const Tensor& x,
                                          const Tensor& gamma, const Tensor& beta,
                                          const Tensor& mean, const Tensor& variance,
                                          const Tensor& y, Activation activation) {
  launch(stream, [=] {
    reference::batchnorm_inference<T>(epsilon, x, gamma, beta, mean, variance, y);
    reference::activate<T>(activation, y);
  });
}

template <typename T>
void ReferenceOps<T>::batchnorm_backward(Stream& stream, double epsilon, const Tensor& dy,
                                         const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                         const Tensor& variance, const Tensor& dx,
                                         Accumulate accumulate, const Tensor& dgamma,
                                         const Tensor& dbeta) {
  launch(stream, [=] {
    reference::batchnorm_backward<T>(epsilon, dy, x, gamma, mean, variance, dx, accumulate, dgamma,
                                     dbeta);
  });
}

template <typename T>
void ReferenceOps<T>::scale(Stream& stream, double factor, const Tensor& x, const Tensor& y) {
  launch(stream, [=] { reference::scale<T>(factor, x, y); });
}

template <typename T>
void ReferenceOps<T>::fold(Stream& stream, double momentum, const Tensor& value,
                           const Tensor& running) {
  launch(stream, [=] { reference::fold<T>(momentum, value, running); });
}

template <typename T>
void ReferenceOps<T>::relu(Stream& stream, const Tensor& x, const Tensor& y) {
  launch(stream, [=] { reference::relu<T>(x, y); });
}

template <typename T>
void ReferenceOps<T>::relu_backward(Stream& stream, const Tensor& dy, const Tensor& y,
                                    const Tensor& dx) {
  launch(stream, [=] { reference::relu_backward<T>(dy, y, dx); });
}

template <typename T>
std::size_t ReferenceOps<T>::maxpool_choice_bytes(const Window&, const base::Shape&,
                                                  const base::Shape& y, Layout) const {
  return static_cast<std::size_t>(y.elements()) * sizeof(std::int32_t);
}

template <typename T>
void ReferenceOps<T>::maxpool(Stream& stream, const Window& window, const Tensor& x,
                              const Tensor& y, std::byte* choice) {
  launch(stream, [=] { reference::maxpool<T>(window, x, y, choice); });
}

template <typename T>
void ReferenceOps<T>::maxpool_backward(Stream& stream, const Window&, const Tensor& dy,
                                       const std::byte* choice, const Tensor& dx) {
  launch(stream, [=] { reference::maxpool_backward<T>(dy, choice, dx); });
}

template <typename T>
void ReferenceOps<T>::avgpool(Stream& stream, const Window& window, const Tensor& x,
                              const Tensor& y) {
  launch(stream, [=] { reference::avgpool<T>(window, x, y); });
}

template <typename T>
void ReferenceOps<T>::avgpool_backward(Stream& stream, const Window& window, const Tensor& dy,
                                       const Tensor& dx) {
  launch(stream, [=] { reference::avgpool_backward<T>(window, dy, dx); });
}

template <typename T>
void ReferenceOps<T>::add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& y,
                          Activation activation) {
  launch(stream, [=] { reference::add<T>(a, b, y, activation); });
}

template <typename T>
void ReferenceOps<T>::dropout(Stream& stream, double p, const base::Philox& key,
                              std::span<const std::uint64_t> samples, const Tensor& x,
                              const Tensor& y) {
  launch(stream, [=] { reference::dropout<T>(p, key, samples, x, y); });
}

template <typename T>
void ReferenceOps<T>::softmax_cross_entropy(Stream& stream, double smoothing, const Tensor& logits,
                                            const Tensor& labels, double gradient_scale,
                                            Accumulate accumulate, const Tensor& totals,
                                            const Tensor& dlogits) {
  launch(stream, [=] {
    reference::softmax_cross_entropy<T>(smoothing, logits, labels, gradient_scale, accumulate,
                                        totals, dlogits);
  });
}

template <typename T>
void ReferenceOps<T>::fill(Stream& stream, double value, const Tensor& x) {
  launch(stream, [=] { reference::fill<T>(value, x); });
}

template <typename T>
void ReferenceOps<T>::sgd(Stream& stream, const SgdStep& step, const Tensor& w, const Tensor& g,
                          const Tensor& v, const Tensor& w_new) {
  launch(stream, [=] { reference::sgd<T>(step, w, g, v, w_new); });
}

template <typename T>
void ReferenceOps<T>::adam(Stream& stream, const AdamStep& step, const Tensor& w, const Tensor& g,
                           const Tensor& m, const Tensor& v, const Tensor& w_new) {
  launch(stream, [=] { reference::adam<T>(step, w, g, m, v, w_new); });
}

template <typename T>
void ReferenceOps<T>::nadam(Stream& stream, const NadamStep& step, const Tensor& w, const Tensor& g,
                            const Tensor& m, const Tensor& v, const Tensor& w_new) {
  launch(stream, [=] { reference::nadam<T>(step, w, g, m, v, w_new); });
}

template class ReferenceOps<float>;
template class ReferenceOps<double>;

std::unique_ptr<Ops> make_reference_ops(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return std::make_unique<ReferenceOps<float>>();
    case DType::float64:
      return std::make_unique<ReferenceOps<double>>();
    case DType::int32:
      break;
  }
  throw std::invalid_argument("reference backend: no arithmetic in " +
                              std::string(tensor::name_of(dtype)));
}

}  // namespace dynpipe::ops
