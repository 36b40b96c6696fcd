#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/random.hpp"
#include "device/device.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::ops {

using device::Stream;
using tensor::DType;
using tensor::Layout;
using tensor::Tensor;

/// The window of a convolution or pooling.
struct Window {
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;  ///< zeros on both sides

  /// floor((size + 2 pad - kernel) / stride) + 1
  std::int64_t output_h(std::int64_t h) const { return (h + 2 * pad_h - kernel_h) / stride_h + 1; }
  std::int64_t output_w(std::int64_t w) const { return (w + 2 * pad_w - kernel_w) / stride_w + 1; }
};

/// What a gradient does to what is there: `set` on a group's first microbatch, `add` on the others.
enum class Accumulate : bool { set, add };

/// What is done to an output before it is written: so that it is written once.
enum class Activation : bool { none, relu };

struct SgdStep {
  double learning_rate, momentum, weight_decay;
  bool nesterov;
};

struct AdamStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  bool decoupled_decay;  ///< AdamW
  std::int64_t step;     ///< 1 for the first update: for the bias correction
};

/// Update t, which counts from 1, with the momentum schedule mu_1, mu_2, ... of Dozat (2016).
struct NadamStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double mu, next_mu;  ///< mu_t and mu_(t+1)
  double mu_product;   ///< mu_1 ... mu_t
  std::int64_t step;   ///< t
};

/// The maths, declared once; every backend is tested against the readable one in `reference/`.
///
/// Tensors are views of device memory of type `dtype()`; images are [N,C,H,W], plain or blocked,
/// features [N,F] plain, weights of convolutions plain or as `preferred_weights_layout` says,
/// everything else plain. Every call is asynchronous on
/// its stream and keeps no reference past its work. Outputs may not overlap inputs unless it says
/// so. A batch of N = 0 is legal: nothing is read, and outputs with no batch dimension are left as
/// they are under `add` and zeroed under `set`. An object serves one stream at a time: backends
/// keep scratch memory.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string name() const = 0;  ///< "reference", "onednn"
  virtual DType dtype() const = 0;
  /// The layout in which this backend wants images of this per-sample shape [C,H,W]: a function of
  /// the shape alone, so that it is the same under every plan.
  virtual Layout preferred_layout(const base::Shape& sample) const = 0;
  /// y = x, in y's layout; same logical shape, or same number of elements per sample where both are
  /// plain.
  virtual void reorder(Stream&, const Tensor& x, const Tensor& y) = 0;

  /// The layout in which this backend wants the weights [O,C,KH,KW] of a convolution between images
  /// in these layouts. Elementwise work on weights in any layout is that on plain ones.
  virtual Layout preferred_weights_layout(const Window&, const base::Shape& w, Layout x,
                                          Layout y) const = 0;
  /// The layout in which `conv2d_backward_input` had rather read weights that lie in `layout`.
  virtual Layout backward_weights_layout(Layout layout) const = 0;
  /// y = w [O,C,KH,KW], in y's layout.
  virtual void reorder_weights(Stream&, const Tensor& w, const Tensor& y) = 0;

  /// y[n,o,:,:] = activation(sum_c w[o,c] * x[n,c] + b[o]). x [N,C,H,W], w [O,C,KH,KW], b [O] or
  /// empty, y [N,O,H',W'].
  virtual void conv2d(Stream&, const Window&, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& y, Activation) = 0;
  /// dx from dy and w. Without the activation, here and below.
  virtual void conv2d_backward_input(Stream&, const Window&, const Tensor& dy, const Tensor& w,
                                     const Tensor& dx) = 0;
  /// dw, and db unless empty, from dy and x.
  virtual void conv2d_backward_weights(Stream&, const Window&, const Tensor& dy, const Tensor& x,
                                       Accumulate, const Tensor& dw, const Tensor& db) = 0;

  /// y = x w^T + b. x [N,I], w [O,I], b [O] or empty, y [N,O].
  virtual void linear(Stream&, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& y) = 0;
  virtual void linear_backward_input(Stream&, const Tensor& dy, const Tensor& w,
                                     const Tensor& dx) = 0;
  virtual void linear_backward_weights(Stream&, const Tensor& dy, const Tensor& x, Accumulate,
                                       const Tensor& dw, const Tensor& db) = 0;

  /// y = activation(gamma (x - mean) / sqrt(variance + epsilon) + beta) per channel, mean and
  /// (biased) variance [C] taken over N, H, W and written out. x [N,C,H,W] with N >= 1.
  virtual void batchnorm(Stream&, double epsilon, const Tensor& x, const Tensor& gamma,
                         const Tensor& beta, const Tensor& y, const Tensor& mean,
                         const Tensor& variance, Activation) = 0;
  /// The same with given mean and variance, which are read.
  virtual void batchnorm_inference(Stream&, double epsilon, const Tensor& x, const Tensor& gamma,
                                   const Tensor& beta, const Tensor& mean, const Tensor& variance,
                                   const Tensor& y, Activation) = 0;
  /// dx, dgamma, dbeta of `batchnorm` without its activation, through mean and variance too.
  virtual void batchnorm_backward(Stream&, double epsilon, const Tensor& dy, const Tensor& x,
                                  const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                                  const Tensor& dx, Accumulate, const Tensor& dgamma,
                                  const Tensor& dbeta) = 0;
  /// y = scale x: e.g. an unbiased variance from a biased one. y may be x.
  virtual void scale(Stream&, double factor, const Tensor& x, const Tensor& y) = 0;
  /// running = (1 - momentum) running + momentum value.
  virtual void fold(Stream&, double momentum, const Tensor& value, const Tensor& running) = 0;

  /// y = max(x, 0). y may be x. Same layout.
  virtual void relu(Stream&, const Tensor& x, const Tensor& y) = 0;
  /// dx = dy where y > 0, else 0. dx may be dy.
  virtual void relu_backward(Stream&, const Tensor& dy, const Tensor& y, const Tensor& dx) = 0;

  /// Bytes of `choice` that maxpool needs for an output of this batched shape [N,C,H',W'].
  virtual std::size_t maxpool_choice_bytes(const Window&, const base::Shape& x,
                                           const base::Shape& y, Layout) const = 0;
  /// Largest of each window; padding never wins; of equals the first in row-major order. `choice`
  /// remembers the winners for the backward, in the backend's own form. x and y of one layout.
  virtual void maxpool(Stream&, const Window&, const Tensor& x, const Tensor& y,
                       std::byte* choice) = 0;
  virtual void maxpool_backward(Stream&, const Window&, const Tensor& dy, const std::byte* choice,
                                const Tensor& dx) = 0;
  /// Mean of each window, padding counted as zeros (PyTorch's default). x and y of one layout.
  virtual void avgpool(Stream&, const Window&, const Tensor& x, const Tensor& y) = 0;
  virtual void avgpool_backward(Stream&, const Window&, const Tensor& dy, const Tensor& dx) = 0;

  /// y = activation(a + b), all of one shape and layout. y may be a or b.
  virtual void add(Stream&, const Tensor& a, const Tensor& b, const Tensor& y, Activation) = 0;

  /// y = x keep / (1 - p), where element i (logical row-major index within its sample) of sample n
  /// is kept if word i mod 4 of key.block(i / 4, samples[n]) is at least p 2^32. The same call with
  /// dy for x is its backward. `samples` must live until the work has run. y may be x.
  virtual void dropout(Stream&, double p, const base::Philox& key,
                       std::span<const std::uint64_t> samples, const Tensor& x,
                       const Tensor& y) = 0;

  /// Softmax cross entropy of logits [N,K] and labels [N] (int32), against the distribution q = (1
  /// - smoothing) onehot + smoothing / K, `smoothing` in [0, 1]. totals is float64 [2] whatever
  /// dtype(): the sum of the samples' losses and the number whose largest logit (the first of
  /// equals) is the label, set or added to. dlogits [N,K] = gradient_scale (softmax - q), unless
  /// empty. A NaN in the logits reaches the loss.
  virtual void softmax_cross_entropy(Stream&, double smoothing, const Tensor& logits,
                                     const Tensor& labels, double gradient_scale, Accumulate,
                                     const Tensor& totals, const Tensor& dlogits) = 0;

  /// x = value everywhere.
  virtual void fill(Stream&, double value, const Tensor& x) = 0;

  /// PyTorch's SGD: g += weight_decay w; v = momentum v + g; w_new = w - lr (nesterov ? g +
  /// momentum v : v). v empty where momentum is 0. w_new may be w.
  virtual void sgd(Stream&, const SgdStep&, const Tensor& w, const Tensor& g, const Tensor& v,
                   const Tensor& w_new) = 0;
  /// PyTorch's Adam and AdamW; m and v are its first and second moments. w_new may be w.
  virtual void adam(Stream&, const AdamStep&, const Tensor& w, const Tensor& g, const Tensor& m,
                    const Tensor& v, const Tensor& w_new) = 0;
  /// PyTorch's NAdam; m and v as in Adam. w_new may be w.
  virtual void nadam(Stream&, const NadamStep&, const Tensor& w, const Tensor& g, const Tensor& m,
                     const Tensor& v, const Tensor& w_new) = 0;
};

/// Plain loops that read like the formulas, in float32 and float64.
std::unique_ptr<Ops> make_reference_ops(DType dtype);
/// Convolutions, poolings and norms by oneDNN, products by OpenBLAS, in float32, on `threads`
/// threads of this process: as many give the same bits again.
std::unique_ptr<Ops> make_onednn_ops(int threads = 1);

}  // namespace dynpipe::ops
