#include <array>

#include "backend/backend_test.hpp"

namespace dynpipe::test {
namespace {

const Shape k_shapes[] = {{1, 1, 1, 1}, {3, 5, 3, 7}, {2, 16, 3, 3}, {0, 8, 4, 4}};

class ElementwiseTest : public BackendTest {
 protected:
  template <typename Visit>
  void for_each_shape(Visit visit) {
    for (const Shape& shape : k_shapes) {
      for (const Layout layout : layouts(shape)) {
        visit(shape, layout, shape.to_string() + " " + name_of(layout));
      }
    }
  }
  /// |value| scaled to the error of a few roundings.
  Array rounded(int roundings, const Array& size) const {
    return map([&](double s) { return roundings * (roundoff() + 0x1.0p-53) * std::abs(s); }, size);
  }
};

TEST_P(ElementwiseTest, ReorderGoesThereAndBack) {
  for_each_shape([&](const Shape& shape, Layout layout, const std::string& what) {
    Values values(1);
    const Array x = values.uniform(shape);
    const Tensor there = upload(x, layout), again = poisoned(shape, layout);
    ops().reorder(stream(), there, again);
    expect_equal(download(again), x, what);
  });
}

TEST_P(ElementwiseTest, ReorderFlattensPlainImages) {
  Values values(1);
  const Array x = values.uniform({2, 3, 4, 5});
  const Tensor flat = poisoned({2, 60});
  ops().reorder(stream(), upload(x), flat);
  expect_equal(download(flat), Array({2, 60}, x.values), "flat");
}

TEST_P(ElementwiseTest, PreferredLayoutOfOddChannelsAndOfFeaturesIsPlain) {
  EXPECT_EQ(ops().preferred_layout({3, 8, 8}), Layout::plain);
  EXPECT_EQ(ops().preferred_layout({64}), Layout::plain);
}

TEST_P(ElementwiseTest, ReluKeepsThePositive) {
  for_each_shape([&](const Shape& shape, Layout layout, const std::string& what) {
    Values values(2);
    const Array x = values.uniform(shape);
    const Array expected = map([](double v) { return std::max(v, 0.0); }, x);
    const Tensor in = upload(x, layout), y = poisoned(shape, layout);
    ops().relu(stream(), in, y);
    expect_equal(download(y), expected, what);
    ops().relu(stream(), in, in);
    expect_equal(download(in), expected, what + " in place");
  });
}

TEST_P(ElementwiseTest, ReluLetsNanPass) {
  for_each_shape([&](const Shape& shape, Layout layout, const std::string&) {
    const Tensor y = poisoned(shape, layout);
    ops().relu(stream(), upload(Array(shape, NAN), layout), y);
    for (const double value : download(y).values) EXPECT_TRUE(std::isnan(value));
  });
}

TEST_P(ElementwiseTest, ReluBackwardPassesWhereTheOutputIsPositive) {
  for_each_shape([&](const Shape& shape, Layout layout, const std::string& what) {
    Values values(3);
    const Array y = map([](double v) { return std::max(v, 0.0); }, values.uniform(shape));
    const Array dy = values.uniform(shape);
    const Array expected = map([](double g, double v) { return v > 0 ? g : 0; }, dy, y);
    const Tensor in = upload(dy, layout), dx = poisoned(shape, layout);
    ops().relu_backward(stream(), in, upload(y, layout), dx);
    expect_equal(download(dx), expected, what);
    ops().relu_backward(stream(), in, upload(y, layout), in);
    expect_equal(download(in), expected, what + " in place");
  });
}

TEST_P(ElementwiseTest, AddMayWriteOverEitherOperand) {
  for_each_shape([&](const Shape& shape, Layout layout, const std::string& what) {
    Values values(4);
    const Array a = values.uniform(shape), b = values.uniform(shape);
    const Array expected = map([](double x, double y) { return x + y; }, a, b);
    const Tensor left = upload(a, layout), right = upload(b, layout);
    const Tensor y = poisoned(shape, layout);
    ops().add(stream(), left, right, y, Activation::none);
    expect_close(download(y), expected, rounded(1, expected), what);
    const Tensor left_again = upload(a, layout);
    ops().add(stream(), left_again, right, left_again, Activation::none);
    expect_close(download(left_again), expected, rounded(1, expected), what + " over a");
    ops().add(stream(), left, right, right, Activation::none);
    expect_close(download(right), expected, rounded(1, expected), what + " over b");
  });
}

TEST_P(ElementwiseTest, ScaleFillAndFold) {
  for_each_shape([&](const Shape& shape, Layout layout, const std::string& what) {
    Values values(5);
    const Array x = values.uniform(shape), running = values.uniform(shape);
    const Tensor in = upload(x, layout), y = poisoned(shape, layout);
    const Array scaled = map([](double v) { return 1.1 * v; }, x);
    ops().scale(stream(), 1.1, in, y);
    expect_close(download(y), scaled, rounded(2, scaled), what + " scale");
    ops().fold(stream(), 0.1, in, y);
    const Array folded = map([](double r, double v) { return 0.9 * r + 0.1 * v; }, scaled, x);
    const Array size = map([](double r, double v) { return std::abs(r) + std::abs(v); }, scaled, x);
    expect_close(download(y), folded, rounded(5, size), what + " fold");
    ops().scale(stream(), 1.1, in, in);
    expect_close(download(in), scaled, rounded(2, scaled), what + " scale in place");
    ops().fill(stream(), -2.5, y);
    expect_equal(download(y), Array(shape, -2.5), what + " fill");
  });
}

TEST_P(ElementwiseTest, DropoutDrawsBySampleAndLogicalIndex) {
  const base::Philox key(7, "dropout");
  const double p = 0.3;
  const std::array<std::uint64_t, 3> samples{5, 1'000'000'007, 2};
  for_each_shape([&](const Shape& shape, Layout layout, const std::string& what) {
    Values values(6);
    const Array x = values.uniform(shape);
    Array expected(shape);
    const auto features = static_cast<std::size_t>(shape.without_batch().elements());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t n = i / features, feature = i % features;
      const double draw = key.block(feature / 4, samples[n])[feature % 4] * 0x1.0p-32;
      expected[i] = draw >= p ? x[i] / (1 - p) : 0;
    }
    const std::span<const std::uint64_t> drawn =
        std::span(samples).first(static_cast<std::size_t>(shape[0]));
    const Tensor in = upload(x, layout), y = poisoned(shape, layout);
    ops().dropout(stream(), p, key, drawn, in, y);
    expect_close(download(y), expected, rounded(3, expected), what);
    ops().dropout(stream(), p, key, drawn, in, in);
    expect_close(download(in), expected, rounded(3, expected), what + " in place");
  });
}

TEST_P(ElementwiseTest, DropoutOfNothingAndOfEverything) {
  const base::Philox key(7, "dropout");
  const std::array<std::uint64_t, 2> samples{0, 1};
  Values values(7);
  const Array x = values.uniform({2, 9});
  const Tensor y = poisoned({2, 9});
  ops().dropout(stream(), 0, key, samples, upload(x), y);
  expect_equal(download(y), x, "p = 0");
  ops().dropout(stream(), 1, key, samples, upload(x), y);
  expect_equal(download(y), Array({2, 9}), "p = 1");
}

INSTANTIATE_TEST_SUITE_P(Backends, ElementwiseTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
