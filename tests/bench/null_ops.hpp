#pragma once

#include "ops/reference/reference_ops.hpp"

namespace dynpipe::bench {

using namespace dynpipe::ops;

/// Operations that do nothing: what is left of a step is the runtime's own.
class NullOps final : public ReferenceOps<float> {
 public:
  std::string name() const override { return "null"; }
  void reorder(Stream&, const Tensor&, const Tensor&) override {}
  void reorder_weights(Stream&, const Tensor&, const Tensor&) override {}
  void conv2d(Stream&, const Window&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
              Activation) override {}
  void conv2d_backward_input(Stream&, const Window&, const Tensor&, const Tensor&,
                             const Tensor&) override {}
  void conv2d_backward_weights(Stream&, const Window&, const Tensor&, const Tensor&, Accumulate,
                               const Tensor&, const Tensor&) override {}
  void linear(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
  void linear_backward_input(Stream&, const Tensor&, const Tensor&, const Tensor&) override {}
  void linear_backward_weights(Stream&, const Tensor&, const Tensor&, Accumulate, const Tensor&,
                               const Tensor&) override {}
  void batchnorm(Stream&, double, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor&, const Tensor&, Activation) override {}
  void batchnorm_backward(Stream&, double, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, const Tensor&, const Tensor&, Accumulate, const Tensor&,
                          const Tensor&) override {}
  void scale(Stream&, double, const Tensor&, const Tensor&) override {}
  void fold(Stream&, double, const Tensor&, const Tensor&) override {}
  void relu(Stream&, const Tensor&, const Tensor&) override {}
  void relu_backward(Stream&, const Tensor&, const Tensor&, const Tensor&) override {}
  void maxpool(Stream&, const Window&, const Tensor&, const Tensor&, std::byte*) override {}
  void maxpool_backward(Stream&, const Window&, const Tensor&, const std::byte*,
                        const Tensor&) override {}
  void avgpool(Stream&, const Window&, const Tensor&, const Tensor&) override {}
  void avgpool_backward(Stream&, const Window&, const Tensor&, const Tensor&) override {}
  void add(Stream&, const Tensor&, const Tensor&, const Tensor&, Activation) override {}
  void fill(Stream&, double, const Tensor&) override {}
  void sgd(Stream&, const SgdStep&, const Tensor&, const Tensor&, const Tensor&,
           const Tensor&) override {}
};

}  // namespace dynpipe::bench
