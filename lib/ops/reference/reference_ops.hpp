#pragma once

#include <string>

#include "ops/ops.hpp"

namespace dynpipe::ops {

/// The readable backend: every call launches the kernel of the same name from this folder. It knows
/// the plain layout alone; elementwise operations do not care, so that faster backends inherit
/// them.
template <typename T>
class ReferenceOps : public Ops {
 public:
  std::string name() const override { return "reference"; }
  DType dtype() const override;
  Layout preferred_layout(const base::Shape&) const override { return Layout::plain; }
  void reorder(Stream&, const Tensor& x, const Tensor& y) override;
  Layout preferred_weights_layout(const Window&, const base::Shape&, Layout,
                                  Layout) const override {
    return Layout::plain;
  }
  Layout backward_weights_layout(Layout layout) const override { return layout; }
  void reorder_weights(Stream&, const Tensor& w, const Tensor& y) override;

  void conv2d(Stream&, const Window&, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y, Activation) override;
  void conv2d_backward_input(Stream&, const Window&, const Tensor& dy, const Tensor& w,
                             const Tensor& dx) override;
  void conv2d_backward_weights(Stream&, const Window&, const Tensor& dy, const Tensor& x,
                               Accumulate, const Tensor& dw, const Tensor& db) override;

  void linear(Stream&, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) override;
  void linear_backward_input(Stream&, const Tensor& dy, const Tensor& w, const Tensor& dx) override;
  void linear_backward_weights(Stream&, const Tensor& dy, const Tensor& x, Accumulate,
                               const Tensor& dw, const Tensor& db) override;

  void batchnorm(Stream&, double epsilon, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                 const Tensor& y, const Tensor& mean, const Tensor& variance, Activation) override;
  void batchnorm_inference(Stream&, double epsilon, const Tensor& x, const Tensor& gamma,
                           const Tensor& beta, const Tensor& mean, const Tensor& variance,
                           const Tensor& y, Activation) override;
  void batchnorm_backward(Stream&, double epsilon, const Tensor& dy, const Tensor& x,
                          const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                          const Tensor& dx, Accumulate, const Tensor& dgamma,
                          const Tensor& dbeta) override;
  void scale(Stream&, double factor, const Tensor& x, const Tensor& y) override;
  void fold(Stream&, double momentum, const Tensor& value, const Tensor& running) override;

  void relu(Stream&, const Tensor& x, const Tensor& y) override;
  void relu_backward(Stream&, const Tensor& dy, const Tensor& y, const Tensor& dx) override;

  std::size_t maxpool_choice_bytes(const Window&, const base::Shape& x, const base::Shape& y,
                                   Layout) const override;
  void maxpool(Stream&, const Window&, const Tensor& x, const Tensor& y,
               std::byte* choice) override;
  void maxpool_backward(Stream&, const Window&, const Tensor& dy, const std::byte* choice,
                        const Tensor& dx) override;
  void avgpool(Stream&, const Window&, const Tensor& x, const Tensor& y) override;
  void avgpool_backward(Stream&, const Window&, const Tensor& dy, const Tensor& dx) override;

  void add(Stream&, const Tensor& a, const Tensor& b, const Tensor& y, Activation) override;
  void dropout(Stream&, double p, const base::Philox& key, std::span<const std::uint64_t> samples,
               const Tensor& x, const Tensor& y) override;
  void softmax_cross_entropy(Stream&, double smoothing, const Tensor& logits, const Tensor& labels,
                             double gradient_scale, Accumulate, const Tensor& totals,
                             const Tensor& dlogits) override;
  void fill(Stream&, double value, const Tensor& x) override;
  void sgd(Stream&, const SgdStep&, const Tensor& w, const Tensor& g, const Tensor& v,
           const Tensor& w_new) override;
  void adam(Stream&, const AdamStep&, const Tensor& w, const Tensor& g, const Tensor& m,
            const Tensor& v, const Tensor& w_new) override;
  void nadam(Stream&, const NadamStep&, const Tensor& w, const Tensor& g, const Tensor& m,
             const Tensor& v, const Tensor& w_new) override;
};

extern template class ReferenceOps<float>;
extern template class ReferenceOps<double>;

}  // namespace dynpipe::ops
