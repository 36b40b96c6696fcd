#include <functional>

#include "backend/backend_test.hpp"

namespace dynpipe::test {
namespace {

/// A fused activation is the same arithmetic as a separate one: same bits, and NaN is not lost.
class ActivationTest : public BackendTest {
 protected:
  /// `call(activation, y)` writes y of this shape and layout.
  void expect_same_as_separate(const Shape& shape, Layout layout, const std::string& what,
                               const std::function<void(Activation, const Tensor&)>& call) {
    const Tensor apart = poisoned(shape, layout), fused = poisoned(shape, layout);
    call(Activation::none, apart);
    ops().relu(stream(), apart, apart);
    call(Activation::relu, fused);
    const Array expected = download(apart);
    expect_equal(download(fused), expected, what + ", " + name_of(layout));
    // Without any of these the comparison would show nothing.
    for (const auto& holds : std::initializer_list<std::function<bool(double)>>{
             [](double v) { return v == 0; }, [](double v) { return v > 0; },
             [](double v) { return std::isnan(v); }}) {
      EXPECT_TRUE(std::any_of(expected.values.begin(), expected.values.end(), holds)) << what;
    }
  }

  /// Values of both signs, with a NaN in the first channel of the first sample.
  Array images(const Shape& shape) {
    Array x = Values(1).uniform(shape);
    x[3] = std::numeric_limits<double>::quiet_NaN();
    return x;
  }
};

TEST_P(ActivationTest, OfConvolutions) {
  const Window window{3, 3, 1, 1, 1, 1};
  for (const std::int64_t outputs : {3, 16, 1024}) {
    const Shape x_shape{2, 128, 4, 4}, y_shape{2, outputs, 4, 4}, w_shape{outputs, 128, 3, 3};
    if (outputs == 1024 && ops().name() == "reference") continue;  // slow, and nothing new
    const Array x = images(x_shape), w = Values(2).uniform(w_shape);
    const Array b = Values(3).uniform({outputs});
    const Layout x_layout = layouts(x_shape).back(), y_layout = layouts(y_shape).back();
    const Layout w_layout = weights_layouts(window, w_shape, x_layout, y_layout).back();
    expect_same_as_separate(y_shape, y_layout, "weights " + name_of(w_layout),
                            [&](Activation activation, const Tensor& y) {
                              ops().conv2d(stream(), window, upload(x, x_layout),
                                           upload_weights(w, w_layout), upload(b), y, activation);
                            });
  }
}

TEST_P(ActivationTest, OfBatchnorms) {
  const Shape shape{3, 16, 5, 7};
  const Array x = images(shape), gamma = Values(2).uniform({16}), beta = Values(3).uniform({16});
  const Array variance = Values(4).uniform({16}, 0.5, 2);
  for (const Layout layout : layouts(shape)) {
    expect_same_as_separate(shape, layout, "training", [&](Activation activation, const Tensor& y) {
      ops().batchnorm(stream(), 1e-5, upload(x, layout), upload(gamma), upload(beta), y,
                      poisoned({16}), poisoned({16}), activation);
    });
    expect_same_as_separate(
        shape, layout, "inference", [&](Activation activation, const Tensor& y) {
          ops().batchnorm_inference(stream(), 1e-5, upload(x, layout), upload(gamma), upload(beta),
                                    upload(beta), upload(variance), y, activation);
        });
  }
}

TEST_P(ActivationTest, OfSums) {
  const Shape shape{3, 16, 5, 7};
  const Array a = images(shape), b = Values(2).uniform(shape);
  for (const Layout layout : layouts(shape)) {
    expect_same_as_separate(shape, layout, "sum", [&](Activation activation, const Tensor& y) {
      ops().add(stream(), upload(a, layout), upload(b, layout), y, activation);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ActivationTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
