#include "backend/backend_test.hpp"
#include "backend/naive.hpp"

namespace dynpipe::test {
namespace {

/// Equal bits, wherever the operands lie, in whatever state the caches and the scratch memory are.
class ReproducibilityTest : public BackendTest {
 protected:
  /// Runs `result` three times, with other work and other addresses in between.
  template <typename Result>
  void expect_same_bits(Result result) {
    const std::vector<Array> once = result();
    for (int again = 0; again < 2; ++again) {
      allocate(64 * static_cast<std::size_t>(again + 1));
      const std::vector<Array> twice = result();
      ASSERT_EQ(once.size(), twice.size());
      for (std::size_t i = 0; i < once.size(); ++i) expect_equal(twice[i], once[i], "again");
    }
  }
};

TEST_P(ReproducibilityTest, OfConvolutions) {
  const Window window{3, 3, 1, 1, 1, 1};
  for (const std::int64_t channels : {1, 3, 12, 32}) {
    const Shape x_shape{4, channels, 9, 9}, y_shape{4, 16, 9, 9};
    Values values(1);
    const Array x = values.uniform(x_shape), dy = values.uniform(y_shape);
    const Array w = values.uniform({16, channels, 3, 3}), b = values.uniform({16});
    const Layout x_layout = layouts(x_shape).back(), y_layout = layouts(y_shape).back();
    expect_same_bits([&] {
      const Tensor y = poisoned(y_shape, y_layout), dx = poisoned(x_shape, x_layout);
      const Tensor dw = upload(w), db = upload(b);
      ops().conv2d(stream(), window, upload(x, x_layout), upload(w), upload(b), y,
                   Activation::none);
      ops().conv2d_backward_input(stream(), window, upload(dy, y_layout), upload(w), dx);
      ops().conv2d_backward_weights(stream(), window, upload(dy, y_layout), upload(x, x_layout),
                                    Accumulate::add, dw, db);
      return std::vector{download(y), download(dx), download(dw), download(db)};
    });
  }
}

TEST_P(ReproducibilityTest, OfProducts) {
  Values values(2);
  const Array x = values.uniform({33, 65}), w = values.uniform({17, 65}), b = values.uniform({17});
  const Array dy = values.uniform({33, 17});
  expect_same_bits([&] {
    const Tensor y = poisoned(dy.shape), dx = poisoned(x.shape), dw = upload(w), db = upload(b);
    ops().linear(stream(), upload(x), upload(w), upload(b), y);
    ops().linear_backward_input(stream(), upload(dy), upload(w), dx);
    ops().linear_backward_weights(stream(), upload(dy), upload(x), Accumulate::add, dw, db);
    return std::vector{download(y), download(dx), download(dw), download(db)};
  });
}

TEST_P(ReproducibilityTest, OfBatchnorm) {
  const Shape shape{5, 16, 7, 7};
  const Layout layout = layouts(shape).back();
  Values values(3);
  const Array x = values.uniform(shape), dy = values.uniform(shape), gamma = values.uniform({16});
  expect_same_bits([&] {
    const Tensor y = poisoned(shape, layout), dx = poisoned(shape, layout);
    const Tensor mean = poisoned({16}), variance = poisoned({16});
    const Tensor dgamma = upload(gamma), dbeta = upload(gamma);
    ops().batchnorm(stream(), 1e-5, upload(x, layout), upload(gamma), upload(gamma), y, mean,
                    variance, Activation::none);
    ops().batchnorm_backward(stream(), 1e-5, upload(dy, layout), upload(x, layout), upload(gamma),
                             mean, variance, dx, Accumulate::add, dgamma, dbeta);
    return std::vector{download(y),  download(mean),   download(variance),
                       download(dx), download(dgamma), download(dbeta)};
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ReproducibilityTest, testing::ValuesIn(backends()),
                         backend_name);

}  // namespace
}  // namespace dynpipe::test
