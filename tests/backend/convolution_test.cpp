#include "backend/backend_test.hpp"
#include "backend/naive.hpp"

namespace dynpipe::test {
namespace {

struct ConvolutionCase {
  Shape x;
  std::int64_t outputs;
  Window window;
};

std::string to_string(const ConvolutionCase& c) {
  const Window& w = c.window;
  return c.x.to_string() + " to " + std::to_string(c.outputs) + ", kernel " +
         std::to_string(w.kernel_h) + "x" + std::to_string(w.kernel_w) + ", stride " +
         std::to_string(w.stride_h) + "x" + std::to_string(w.stride_w) + ", pad " +
         std::to_string(w.pad_h) + "x" + std::to_string(w.pad_w);
}

/// kernel, stride, padding of height and width
constexpr Window window(std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride_h,
                        std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w) {
  return {kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w};
}

const ConvolutionCase k_cases[] = {
    {{2, 1, 7, 5}, 8, window(3, 3, 1, 1, 1, 1)},      // one channel, odd sizes
    {{1, 1, 6, 6}, 1, window(3, 3, 1, 1, 0, 0)},      // one sample, one output
    {{3, 2, 6, 6}, 16, window(5, 5, 1, 1, 2, 2)},     // two channels, a large kernel
    {{3, 3, 9, 8}, 16, window(3, 3, 2, 2, 1, 1)},     // the far padding is read on one side only
    {{2, 8, 6, 6}, 8, window(1, 1, 1, 1, 0, 0)},      // whole blocks
    {{2, 8, 7, 7}, 16, window(1, 1, 2, 2, 0, 0)},     // the last row and column are read
    {{2, 8, 8, 6}, 24, window(1, 1, 2, 2, 0, 0)},     // they are not
    {{1, 16, 5, 7}, 10, window(5, 5, 1, 1, 2, 2)},    // blocks in, none out
    {{2, 12, 8, 8}, 20, window(3, 3, 1, 1, 0, 0)},    // no block is full
    {{2, 5, 6, 9}, 7, window(1, 3, 2, 1, 0, 1)},      // not square
    {{2, 64, 1, 1}, 16, window(3, 3, 1, 1, 1, 1)},    // nearly all of it padding
    {{2, 16, 6, 5}, 32, window(4, 2, 3, 2, 1, 0)},    // nothing alike in height and width
    {{5, 16, 14, 14}, 32, window(3, 3, 1, 1, 1, 1)},  // as in a real network
};

/// Those above, and every small combination of channels, kernel and stride: a library's kernels
/// have their own corners.
std::vector<ConvolutionCase> all_cases() {
  std::vector<ConvolutionCase> cases(std::begin(k_cases), std::end(k_cases));
  for (const std::int64_t inputs : {1, 2, 3, 4, 8, 9}) {
    for (const std::int64_t outputs : {1, 4, 6, 8}) {
      for (const std::int64_t kernel : {1, 2, 3}) {
        for (const std::int64_t stride : {1, 2}) {
          const std::int64_t pad = kernel / 2;
          cases.push_back(
              {{1, inputs, 6, 6}, outputs, window(kernel, kernel, stride, stride, pad, pad)});
        }
      }
    }
  }
  return cases;
}

class ConvolutionTest : public BackendTest {
 protected:
  /// Visit every case in every pair of layouts of its images.
  template <typename Visit>
  void for_each_case(Visit visit) {
    for (const ConvolutionCase& c : all_cases()) {
      const Shape y = naive::output_shape(c.window, c.x, c.outputs);
      for (const Layout x_layout : layouts(c.x)) {
        for (const Layout y_layout : layouts(y)) {
          visit(c, y, x_layout, y_layout,
                to_string(c) + ", " + name_of(x_layout) + " and " + name_of(y_layout));
        }
      }
    }
  }

  static Shape weights(const ConvolutionCase& c) {
    return {c.outputs, c.x[1], c.window.kernel_h, c.window.kernel_w};
  }
};

TEST_P(ConvolutionTest, ForwardIsTheWeightedSumOfTheWindow) {
  for_each_case([&](const ConvolutionCase& c, const Shape& y_shape, Layout x_layout,
                    Layout y_layout, const std::string& what) {
    Values values(1);
    const Array x = values.uniform(c.x), w = values.uniform(weights(c));
    for (const Array& b : {values.uniform({c.outputs}), Array(Shape{0})}) {
      const Tensor bias = b.size() > 0 ? upload(b) : Tensor{};
      const Tensor y = poisoned(y_shape, y_layout);
      ops().conv2d(stream(), c.window, upload(x, x_layout), upload(w), bias, y);
      const auto terms = static_cast<double>(w.size()) / static_cast<double>(c.outputs) + 1;
      expect_close(
          download(y), naive::conv2d(c.window, x, w, b),
          summation_bound(terms, naive::conv2d(c.window, magnitude(x), magnitude(w), magnitude(b))),
          what);
    }
  });
}

TEST_P(ConvolutionTest, BackwardInputIsTheTransposedSum) {
  for_each_case([&](const ConvolutionCase& c, const Shape& y_shape, Layout x_layout,
                    Layout y_layout, const std::string& what) {
    Values values(2);
    const Array dy = values.uniform(y_shape), w = values.uniform(weights(c));
    const Tensor dx = poisoned(c.x, x_layout);
    ops().conv2d_backward_input(stream(), c.window, upload(dy, y_layout), upload(w), dx);
    const auto terms = static_cast<double>(w.size()) / static_cast<double>(c.x[1]);
    expect_close(download(dx), naive::conv2d_backward_input(c.window, dy, w, c.x),
                 summation_bound(terms, naive::conv2d_backward_input(c.window, magnitude(dy),
                                                                     magnitude(w), c.x)),
                 what);
  });
}

TEST_P(ConvolutionTest, BackwardWeightsSumsOverTheBatchAndAccumulates) {
  for_each_case([&](const ConvolutionCase& c, const Shape& y_shape, Layout x_layout,
                    Layout y_layout, const std::string& what) {
    Values values(3);
    const Array dy = values.uniform(y_shape), x = values.uniform(c.x);
    const Array dw_before = values.uniform(weights(c)), db_before = values.uniform({c.outputs});
    const Array dw_value = naive::conv2d_backward_weights(c.window, dy, x);
    const Array dw_bound = naive::conv2d_backward_weights(c.window, magnitude(dy), magnitude(x));
    const Array db_value = naive::sum_per_channel(dy);
    const Array db_bound = naive::sum_per_channel(magnitude(dy));
    const auto terms = static_cast<double>(y_shape.elements()) / static_cast<double>(c.outputs) + 1;
    for (const Accumulate accumulate : k_accumulates) {
      for (const bool with_bias : {true, false}) {
        const Tensor dw = gradient(accumulate, dw_before);
        const Tensor db = with_bias ? gradient(accumulate, db_before) : Tensor{};
        ops().conv2d_backward_weights(stream(), c.window, upload(dy, y_layout), upload(x, x_layout),
                                      accumulate, dw, db);
        const std::string which = what + ", " + name_of(accumulate);
        expect_close(
            download(dw), accumulated(accumulate, dw_before, dw_value),
            summation_bound(terms, accumulated(accumulate, magnitude(dw_before), dw_bound)), which);
        if (!with_bias) continue;
        expect_close(
            download(db), accumulated(accumulate, db_before, db_value),
            summation_bound(terms, accumulated(accumulate, magnitude(db_before), db_bound)), which);
      }
    }
  });
}

TEST_P(ConvolutionTest, EmptyBatchLeavesOrZeroesGradients) {
  const Window w = window(3, 3, 1, 1, 1, 1);
  const Shape images{0, 8, 6, 6};
  Values values(4);
  const Array weights = values.uniform({8, 8, 3, 3}), bias = values.uniform({8});
  for (const Layout layout : layouts(images)) {
    const Tensor x = poisoned(images, layout), y = poisoned(images, layout);
    ops().conv2d(stream(), w, x, upload(weights), upload(bias), y);
    ops().conv2d_backward_input(stream(), w, y, upload(weights), x);
    for (const Accumulate accumulate : k_accumulates) {
      const Tensor dw = gradient(accumulate, weights), db = gradient(accumulate, bias);
      ops().conv2d_backward_weights(stream(), w, y, x, accumulate, dw, db);
      expect_equal(download(dw), accumulated(accumulate, weights, Array(weights.shape)), "dw");
      expect_equal(download(db), accumulated(accumulate, bias, Array(bias.shape)), "db");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ConvolutionTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
