#pragma once

#include <array>
#include <unordered_map>

#include "ops/onednn/layouts.hpp"
#include "ops/onednn/prepared_call.hpp"
#include "ops/reference/reference_ops.hpp"

namespace dynpipe::ops::onednn {

/// Convolutions and norms by oneDNN, products by OpenBLAS, poolings by our own loops over blocks;
/// what does not care about the layout comes from the reference, whose loops the compiler makes
/// vectors of. The two libraries use `threads` threads, the stream's own among them; our own loops
/// run on that one.
class OnednnOps final : public ReferenceOps<float> {
 public:
  explicit OnednnOps(int threads);

  std::string name() const override { return "onednn"; }
  /// Blocked where the channels fill whole blocks.
  Layout preferred_layout(const base::Shape& sample) const override;
  void reorder(Stream&, const Tensor& x, const Tensor& y) override;
  /// Blocked between blocked images, rows where the convolution is better made a product.
  Layout preferred_weights_layout(const Window&, const base::Shape& w, Layout x,
                                  Layout y) const override;
  Layout backward_weights_layout(Layout layout) const override;
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

  void maxpool(Stream&, const Window&, const Tensor& x, const Tensor& y,
               std::byte* choice) override;
  void maxpool_backward(Stream&, const Window&, const Tensor& dy, const std::byte* choice,
                        const Tensor& dx) override;
  void avgpool(Stream&, const Window&, const Tensor& x, const Tensor& y) override;
  void avgpool_backward(Stream&, const Window&, const Tensor& dy, const Tensor& dx) override;

  void dropout(Stream&, double p, const base::Philox& key, std::span<const std::uint64_t> samples,
               const Tensor& x, const Tensor& y) override;

 private:
  /// Everything that a primitive depends on: kind, window, and up to three tensors' shapes and
  /// layouts.
  using Key = std::array<std::int64_t, 23>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  enum class Kind : std::int64_t;
  static Key key(Kind kind, std::int64_t variant, const Window& window,
                 std::initializer_list<const Tensor*> tensors);

  template <typename Prepare>
  void run(const Key& key, Prepare prepare, std::initializer_list<PreparedCall::Binding> bindings);

  int threads_;
  dnnl::engine cpu_;
  dnnl::stream queue_;
  Layouts layouts_;
  // Used by the work alone, which runs in the stream's order.
  Scratch scratch_;
  std::unordered_map<Key, PreparedCall, KeyHash> calls_;
};

}  // namespace dynpipe::ops::onednn
