#include "backend/backend_test.hpp"
#include "backend/naive.hpp"

namespace dynpipe::test {
namespace {

struct PoolingCase {
  Shape x;
  Window window;
};

const PoolingCase k_cases[] = {
    {{2, 8, 6, 6}, {2, 2, 2, 2, 0, 0}},  {{3, 5, 7, 5}, {2, 2, 2, 2, 0, 0}},
    {{1, 16, 7, 7}, {7, 7, 1, 1, 0, 0}}, {{2, 16, 9, 8}, {3, 3, 2, 2, 1, 1}},
    {{2, 1, 5, 6}, {3, 3, 1, 1, 1, 1}},  {{2, 24, 5, 9}, {1, 3, 2, 2, 0, 1}},
    {{2, 8, 6, 6}, {2, 2, 3, 3, 0, 0}},  // leaves gaps between windows
    {{0, 8, 6, 6}, {2, 2, 2, 2, 0, 0}},
};

class PoolingTest : public BackendTest {
 protected:
  template <typename Visit>
  void for_each_case(Visit visit) {
    for (const PoolingCase& c : k_cases) {
      const Shape y = naive::output_shape(c.window, c.x, c.x[1]);
      for (const Layout layout : layouts(c.x)) {
        visit(c, y, layout, c.x.to_string() + " to " + y.to_string() + ", " + name_of(layout));
      }
    }
  }

  /// maxpool and its backward, as [y, dx].
  std::pair<Array, Array> maxpool(const Window& window, const Array& x, const Array& dy,
                                  Layout layout) {
    const Tensor y = poisoned(dy.shape, layout), dx = poisoned(x.shape, layout);
    std::byte* choice = allocate(ops().maxpool_choice_bytes(window, x.shape, dy.shape, layout));
    ops().maxpool(stream(), window, upload(x, layout), y, choice);
    ops().maxpool_backward(stream(), window, upload(dy, layout), choice, dx);
    return {download(y), download(dx)};
  }
};

/// Where `taken` gradients are added up, in any order.
double overlap(const Window& window) {
  return static_cast<double>(window.kernel_h * window.kernel_w);
}

TEST_P(PoolingTest, MaximumAndItsBackward) {
  for_each_case([&](const PoolingCase& c, const Shape& y_shape, Layout layout,
                    const std::string& what) {
    Values values(1);
    const Array x = values.distinct(c.x), dy = values.uniform(y_shape);
    const auto [y, dx] = maxpool(c.window, x, dy, layout);
    const naive::Maxima expected = naive::maxpool(c.window, x);
    expect_equal(y, expected.y, what);
    expect_close(
        dx, naive::maxpool_backward(expected, dy, c.x),
        summation_bound(overlap(c.window), naive::maxpool_backward(expected, magnitude(dy), c.x)),
        what);
  });
}

TEST_P(PoolingTest, OfEqualMaximaTheFirstInRowMajorOrderWins) {
  for_each_case([&](const PoolingCase& c, const Shape& y_shape, Layout layout,
                    const std::string& what) {
    Values values(2);
    // Three values only, all negative: ties are everywhere, and padding taken for 0 would win.
    const Array x = map([](double v) { return std::floor(v) - 1; }, values.uniform(c.x, -2.5, 0));
    const Array dy = values.uniform(y_shape);
    const auto [y, dx] = maxpool(c.window, x, dy, layout);
    const naive::Maxima expected = naive::maxpool(c.window, x);
    expect_equal(y, expected.y, what);
    expect_close(
        dx, naive::maxpool_backward(expected, dy, c.x),
        summation_bound(overlap(c.window), naive::maxpool_backward(expected, magnitude(dy), c.x)),
        what);
  });
}

TEST_P(PoolingTest, MaximumOfMinusInfinityIsTheFirst) {
  const Shape x_shape{1, 8, 2, 2}, y_shape{1, 8, 1, 1};
  for (const Layout layout : layouts(x_shape)) {
    const auto [y, dx] =
        maxpool({2, 2, 2, 2, 0, 0}, Array(x_shape, -INFINITY), Array(y_shape, 1), layout);
    expect_equal(y, Array(y_shape, -INFINITY), "y");
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], i % 4 == 0 ? 1 : 0);
  }
}

TEST_P(PoolingTest, NanReachesTheMaximumFromEveryPlaceInTheWindow) {
  const Shape x_shape{1, 8, 2, 2}, y_shape{1, 8, 1, 1};
  for (const Layout layout : layouts(x_shape)) {
    for (std::size_t place = 0; place < 4; ++place) {
      Array x(x_shape, 1);
      for (std::size_t i = place; i < x.size(); i += 4) x[i] = NAN;
      const auto [y, dx] = maxpool({2, 2, 2, 2, 0, 0}, x, Array(y_shape, 1), layout);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << place;
    }
  }
}

TEST_P(PoolingTest, MeanCountsPaddingAsZeros) {
  for_each_case([&](const PoolingCase& c, const Shape& y_shape, Layout layout,
                    const std::string& what) {
    Values values(3);
    const Array x = values.uniform(c.x);
    const Tensor y = poisoned(y_shape, layout);
    ops().avgpool(stream(), c.window, upload(x, layout), y);
    expect_close(download(y), naive::avgpool(c.window, x),
                 summation_bound(overlap(c.window), naive::avgpool(c.window, magnitude(x))), what);
  });
}

TEST_P(PoolingTest, MeanBackwardSpreadsTheGradient) {
  for_each_case([&](const PoolingCase& c, const Shape& y_shape, Layout layout,
                    const std::string& what) {
    Values values(4);
    const Array dy = values.uniform(y_shape);
    const Tensor dx = poisoned(c.x, layout);
    ops().avgpool_backward(stream(), c.window, upload(dy, layout), dx);
    expect_close(
        download(dx), naive::avgpool_backward(c.window, dy, c.x),
        summation_bound(overlap(c.window), naive::avgpool_backward(c.window, magnitude(dy), c.x)),
        what);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, PoolingTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
