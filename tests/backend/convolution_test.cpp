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

  /// Visit them in every layout of their weights too.
  template <typename Visit>
  void for_each_weights_layout(Visit visit) {
    for_each_case([&](const ConvolutionCase& c, const Shape& y, Layout x_layout, Layout y_layout,
                      const std::string& what) {
      for (const Layout w_layout : weights_layouts(c.window, weights(c), x_layout, y_layout)) {
        visit(c, y, x_layout, y_layout, w_layout, what + ", weights " + name_of(w_layout));
      }
    });
  }

  static Shape weights(const ConvolutionCase& c) {
    return {c.outputs, c.x[1], c.window.kernel_h, c.window.kernel_w};
  }
};

TEST_P(ConvolutionTest, ForwardIsTheWeightedSumOfTheWindow) {
  for_each_weights_layout([&](const ConvolutionCase& c, const Shape& y_shape, Layout x_layout,
                              Layout y_layout, Layout w_layout, const std::string& what) {
    Values values(1);
    const Array x = values.uniform(c.x), w = values.uniform(weights(c));
    for (const Array& b : {values.uniform({c.outputs}), Array(Shape{0})}) {
      const Tensor bias = b.size() > 0 ? upload(b) : Tensor{};
      const Tensor y = poisoned(y_shape, y_layout);
      ops().conv2d(stream(), c.window, upload(x, x_layout), upload_weights(w, w_layout), bias, y,
                   Activation::none);
      const auto terms = static_cast<double>(w.size()) / static_cast<double>(c.outputs) + 1;
      expect_close(
          download(y), naive::conv2d(c.window, x, w, b),
          summation_bound(terms, naive::conv2d(c.window, magnitude(x), magnitude(w), magnitude(b))),
          what);
    }
  });
}

TEST_P(ConvolutionTest, BackwardInputIsTheTransposedSum) {
  for_each_weights_layout([&](const ConvolutionCase& c, const Shape& y_shape, Layout x_layout,
                              Layout y_layout, Layout w_layout, const std::string& what) {
    Values values(2);
    const Array dy = values.uniform(y_shape), w = values.uniform(weights(c));
    const auto terms = static_cast<double>(w.size()) / static_cast<double>(c.x[1]);
    const Array bound = summation_bound(
        terms, naive::conv2d_backward_input(c.window, magnitude(dy), magnitude(w), c.x));
    const Array expected = naive::conv2d_backward_input(c.window, dy, w, c.x);
    for (const Layout layout : {w_layout, ops().backward_weights_layout(w_layout)}) {
      const Tensor dx = poisoned(c.x, x_layout);
      const Tensor there = upload_weights(w, w_layout), read = poisoned(w.shape, layout);
      ops().reorder_weights(stream(), there, read);
      ops().conv2d_backward_input(stream(), c.window, upload(dy, y_layout), read, dx);
      expect_close(download(dx), expected, bound, what + ", read " + name_of(layout));
    }
  });
}

TEST_P(ConvolutionTest, BackwardWeightsSumsOverTheBatchAndAccumulates) {
  for_each_weights_layout([&](const ConvolutionCase& c, const Shape& y_shape, Layout x_layout,
                              Layout y_layout, Layout w_layout, const std::string& what) {
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
        const Tensor dw = gradient(accumulate, dw_before, w_layout);
        const Tensor db = with_bias ? gradient(accumulate, db_before) : Tensor{};
        ops().conv2d_backward_weights(stream(), c.window, upload(dy, y_layout), upload(x, x_layout),
                                      accumulate, dw, db);
        const std::string which = what + ", " + name_of(accumulate);
        expect_close(
            download_weights(dw), accumulated(accumulate, dw_before, dw_value),
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
    ops().conv2d(stream(), w, x, upload(weights), upload(bias), y, Activation::none);
    ops().conv2d_backward_input(stream(), w, y, upload(weights), x);
    for (const Accumulate accumulate : k_accumulates) {
      const Tensor dw = gradient(accumulate, weights), db = gradient(accumulate, bias);
      ops().conv2d_backward_weights(stream(), w, y, x, accumulate, dw, db);
      expect_equal(download(dw), accumulated(accumulate, weights, Array(weights.shape)), "dw");
      expect_equal(download(db), accumulated(accumulate, bias, Array(bias.shape)), "db");
    }
  }
}

/// Weights so large that the fast backend makes the convolution one product.
TEST_P(ConvolutionTest, LargeWeights) {
  for (const Window& w : {window(3, 3, 1, 1, 1, 1), window(3, 3, 2, 2, 1, 1)}) {
    const Shape x_shape{3, 128, 4, 3}, w_shape{1024, 128, 3, 3};
    const Shape y_shape = naive::output_shape(w, x_shape, w_shape[0]);
    const Layout x_layout = layouts(x_shape).back(), y_layout = layouts(y_shape).back();
    const Layout w_layout = weights_layouts(w, w_shape, x_layout, y_layout).back();
    if (w_layout != Layout::rows) GTEST_SKIP() << "this backend has no such way";
    Values values(5);
    const Array x = values.uniform(x_shape), weights = values.uniform(w_shape);
    const Array bias = values.uniform({1024}), dy = values.uniform(y_shape);
    const auto terms = static_cast<double>(weights.size()) / 128;
    const Tensor y = poisoned(y_shape, y_layout), dx = poisoned(x_shape, x_layout);
    const Tensor there = upload_weights(weights, w_layout);
    ops().conv2d(stream(), w, upload(x, x_layout), there, upload(bias), y, Activation::none);
    expect_close(
        download(y), naive::conv2d(w, x, weights, bias),
        summation_bound(terms, naive::conv2d(w, magnitude(x), magnitude(weights), magnitude(bias))),
        "y");
    ops().conv2d_backward_input(stream(), w, upload(dy, y_layout), there, dx);
    expect_close(download(dx), naive::conv2d_backward_input(w, dy, weights, x_shape),
                 summation_bound(terms, naive::conv2d_backward_input(w, magnitude(dy),
                                                                     magnitude(weights), x_shape)),
                 "dx");
    const Array dw_value = naive::conv2d_backward_weights(w, dy, x);
    const Array dw_bound = naive::conv2d_backward_weights(w, magnitude(dy), magnitude(x));
    for (const Accumulate accumulate : k_accumulates) {
      const Tensor dw = gradient(accumulate, weights, w_layout), db = gradient(accumulate, bias);
      ops().conv2d_backward_weights(stream(), w, upload(dy, y_layout), upload(x, x_layout),
                                    accumulate, dw, db);
      expect_close(download_weights(dw), accumulated(accumulate, weights, dw_value),
                   summation_bound(40, accumulated(accumulate, magnitude(weights), dw_bound)),
                   "dw, " + name_of(accumulate));
      expect_close(download(db), accumulated(accumulate, bias, naive::sum_per_channel(dy)),
                   summation_bound(40, accumulated(accumulate, magnitude(bias),
                                                   naive::sum_per_channel(magnitude(dy)))),
                   "db, " + name_of(accumulate));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ConvolutionTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
