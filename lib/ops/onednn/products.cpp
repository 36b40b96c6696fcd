#include "ops/onednn/products.hpp"

#include <cblas.h>

#include <algorithm>

namespace dynpipe::ops::onednn {

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
              float beta, float* c) {
  const auto size = [](std::int64_t value) { return static_cast<blasint>(value); };
  const auto order = [](const Factor& f) { return f.transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a), order(b), size(m), size(n), size(k), 1.0F, a.data,
              size(a.row_length), b.data, size(b.row_length), beta, c, size(n));
}

void sum_rows(const float* rows, std::int64_t count, bool fresh, const Tensor& sums_tensor) {
  auto* sums = sums_tensor.as<float>();
  const std::int64_t columns = sums_tensor.elements();
  if (fresh) std::fill_n(sums, columns, 0.0F);
  for (std::int64_t n = 0; n < count; ++n) {
    const float* row = rows + n * columns;
    for (std::int64_t o = 0; o < columns; ++o) sums[o] += row[o];
  }
}

void linear(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const std::int64_t N = x.shape[0], I = x.shape[1], O = w.shape[0];
  if (N == 0) return;
  if (b) {
    for (std::int64_t n = 0; n < N; ++n) std::copy_n(b.as<float>(), O, y.as<float>() + n * O);
  }
  multiply(N, O, I, {x.as<float>(), I}, {w.as<float>(), I, true}, b ? 1.0F : 0.0F, y.as<float>());
}

void linear_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const std::int64_t N = dy.shape[0], O = w.shape[0], I = w.shape[1];
  if (N == 0) return;
  multiply(N, I, O, {dy.as<float>(), O}, {w.as<float>(), I}, 0.0F, dx.as<float>());
}

void linear_backward_weights(const Tensor& dy, const Tensor& x, Accumulate accumulate,
                             const Tensor& dw, const Tensor& db) {
  const std::int64_t N = dy.shape[0], O = dw.shape[0], I = dw.shape[1];
  const bool set = accumulate == Accumulate::set;
  if (N > 0) {
    multiply(O, I, N, {dy.as<float>(), O, true}, {x.as<float>(), I}, set ? 0.0F : 1.0F,
             dw.as<float>());
  } else if (set) {
    std::fill_n(dw.as<float>(), O * I, 0.0F);
  }
  if (db) sum_rows(dy.as<float>(), N, set, db);
}

}  // namespace dynpipe::ops::onednn
