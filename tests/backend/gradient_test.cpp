#include <functional>

#include "backend/backend_test.hpp"
#include "backend/naive.hpp"

namespace dynpipe::test {
namespace {

/// Every backward operation of the float64 reference against differences of its forward.
class GradientTest : public BackendTest {
 protected:
  using Function = std::function<Array(const Array&)>;

  static double dot(const Array& a, const Array& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  /// `gradient` must be that of sum(weights f(x)), by central differences D of steps h and h / 2. D
  /// is off by c h^2 + O(h^4), and D(h) - D(h/2) is 3/4 of it at h: granting D(h/2) the whole
  /// difference is four times its error. Rounding adds at most `terms` u |L| / h, with |L| the sum
  /// of the absolute values.
  static void expect_gradient(const Function& f, const Array& x, const Array& weights,
                              const Array& gradient, const std::string& what) {
    constexpr double h = 1.0 / 512;
    constexpr double terms = 1000;  // additions in f and in the sum: more than any case here has
    const double size = dot(magnitude(weights), magnitude(f(x)));
    const double rounding = terms * 0x1.0p-53 * (size + 1) / h;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto difference = [&](double step) {
        Array forth = x, back = x;
        forth[i] += step;
        back[i] -= step;
        return (dot(weights, f(forth)) - dot(weights, f(back))) / (2 * step);
      };
      const double fine = difference(h / 2);
      ASSERT_NEAR(gradient[i], fine, std::abs(difference(h) - fine) + rounding)
          << what << ", element " << i;
    }
  }
};

TEST_P(GradientTest, OfConvolution) {
  const Window window{3, 2, 2, 1, 1, 0};
  const Shape x_shape{2, 3, 5, 4};
  Values values(1);
  const Array x = values.uniform(x_shape), w = values.uniform({4, 3, 3, 2}),
              b = values.uniform({4});
  const auto forward = [&](const Array& images, const Array& weights, const Array& bias) {
    const Tensor y = poisoned(naive::output_shape(window, x_shape, 4));
    ops().conv2d(stream(), window, upload(images), upload(weights), upload(bias), y,
                 Activation::none);
    return download(y);
  };
  const Array dy = values.uniform(naive::output_shape(window, x_shape, 4));
  const Tensor dx = poisoned(x.shape), dw = poisoned(w.shape), db = poisoned(b.shape);
  ops().conv2d_backward_input(stream(), window, upload(dy), upload(w), dx);
  ops().conv2d_backward_weights(stream(), window, upload(dy), upload(x), Accumulate::set, dw, db);
  expect_gradient([&](const Array& v) { return forward(v, w, b); }, x, dy, download(dx), "x");
  expect_gradient([&](const Array& v) { return forward(x, v, b); }, w, dy, download(dw), "w");
  expect_gradient([&](const Array& v) { return forward(x, w, v); }, b, dy, download(db), "b");
}

TEST_P(GradientTest, OfLinear) {
  Values values(2);
  const Array x = values.uniform({3, 5}), w = values.uniform({4, 5}), b = values.uniform({4});
  const Array dy = values.uniform({3, 4});
  const auto forward = [&](const Array& features, const Array& weights, const Array& bias) {
    const Tensor y = poisoned(dy.shape);
    ops().linear(stream(), upload(features), upload(weights), upload(bias), y);
    return download(y);
  };
  const Tensor dx = poisoned(x.shape), dw = poisoned(w.shape), db = poisoned(b.shape);
  ops().linear_backward_input(stream(), upload(dy), upload(w), dx);
  ops().linear_backward_weights(stream(), upload(dy), upload(x), Accumulate::set, dw, db);
  expect_gradient([&](const Array& v) { return forward(v, w, b); }, x, dy, download(dx), "x");
  expect_gradient([&](const Array& v) { return forward(x, v, b); }, w, dy, download(dw), "w");
  expect_gradient([&](const Array& v) { return forward(x, w, v); }, b, dy, download(db), "b");
}

TEST_P(GradientTest, OfBatchnorm) {
  constexpr double epsilon = 1e-2;
  const Shape shape{3, 2, 2, 3};
  Values values(3);
  const Array x = values.uniform(shape, -1, 2), dy = values.uniform(shape);
  const Array gamma = values.uniform({2}, 0.5, 2), beta = values.uniform({2});
  const Tensor mean = poisoned({2}), variance = poisoned({2});
  const auto forward = [&](const Array& images, const Array& slope, const Array& shift) {
    const Tensor y = poisoned(shape);
    ops().batchnorm(stream(), epsilon, upload(images), upload(slope), upload(shift), y, mean,
                    variance, Activation::none);
    return download(y);
  };
  forward(x, gamma, beta);
  const Tensor dx = poisoned(shape), dgamma = poisoned({2}), dbeta = poisoned({2});
  ops().batchnorm_backward(stream(), epsilon, upload(dy), upload(x), upload(gamma), mean, variance,
                           dx, Accumulate::set, dgamma, dbeta);
  expect_gradient([&](const Array& v) { return forward(v, gamma, beta); }, x, dy, download(dx),
                  "x");
  expect_gradient([&](const Array& v) { return forward(x, v, beta); }, gamma, dy, download(dgamma),
                  "gamma");
  expect_gradient([&](const Array& v) { return forward(x, gamma, v); }, beta, dy, download(dbeta),
                  "beta");
}

TEST_P(GradientTest, OfReluAndPoolings) {
  const Window window{3, 2, 2, 1, 1, 0};
  const Shape shape{2, 2, 5, 4}, y_shape = naive::output_shape(window, shape, 2);
  Values values(4);
  const Array x = values.distinct(shape);  // no step leads over a kink
  const Tensor dx = poisoned(shape), y = poisoned(y_shape);

  const Array dx_of_relu = values.uniform(shape);
  const auto relu = [&](const Array& v) {
    const Tensor result = poisoned(shape);
    ops().relu(stream(), upload(v), result);
    return download(result);
  };
  ops().relu_backward(stream(), upload(dx_of_relu), upload(relu(x)), dx);
  expect_gradient(relu, x, dx_of_relu, download(dx), "relu");

  const Array dy = values.uniform(y_shape);
  std::byte* choice = allocate(ops().maxpool_choice_bytes(window, shape, y_shape, Layout::plain));
  const auto maxpool = [&](const Array& v) {
    ops().maxpool(stream(), window, upload(v), y, choice);
    return download(y);
  };
  maxpool(x);
  ops().maxpool_backward(stream(), window, upload(dy), choice, dx);
  expect_gradient(maxpool, x, dy, download(dx), "maxpool");

  ops().avgpool_backward(stream(), window, upload(dy), dx);
  const auto avgpool = [&](const Array& v) {
    ops().avgpool(stream(), window, upload(v), y);
    return download(y);
  };
  expect_gradient(avgpool, x, dy, download(dx), "avgpool");
}

TEST_P(GradientTest, OfSoftmaxCrossEntropy) {
  const Shape shape{3, 4};
  const std::vector<std::int32_t> classes{1, 3, 0};
  const Tensor labels{allocate(12), DType::int32, Layout::plain, {3}};
  std::copy(classes.begin(), classes.end(), labels.as<std::int32_t>());
  Values values(5);
  const Array logits = values.uniform(shape, -2, 2), scale({1}, 1.0 / 3);
  const Tensor totals = poisoned_of(DType::float64, {2}), dlogits = poisoned(shape);
  for (const double smoothing : {0.0, 0.2}) {
    const auto loss = [&](const Array& v) {
      ops().softmax_cross_entropy(stream(), smoothing, upload(v), labels, scale[0], Accumulate::set,
                                  totals, dlogits);
      return Array({1}, {download(totals)[0]});
    };
    loss(logits);
    const Array gradient = download(dlogits);
    expect_gradient(loss, logits, scale, gradient, "logits");
  }
}

INSTANTIATE_TEST_SUITE_P(Float64, GradientTest, testing::Values(backends()[1]), backend_name);

}  // namespace
}  // namespace dynpipe::test
