#include "backend/backend_test.hpp"
#include "backend/naive.hpp"

namespace dynpipe::test {
namespace {

struct LinearCase {
  std::int64_t samples, inputs, outputs;
};

constexpr LinearCase k_cases[] = {{1, 1, 1}, {1, 7, 3}, {5, 13, 10}, {17, 128, 33}, {64, 300, 65}};

class LinearTest : public BackendTest {};

TEST_P(LinearTest, ForwardIsTheProductPlusBias) {
  for (const auto& [N, I, O] : k_cases) {
    Values values(1);
    const Array x = values.uniform({N, I}), w = values.uniform({O, I}), b = values.uniform({O});
    for (const bool with_bias : {true, false}) {
      Array expected = naive::product(x, false, w, true);
      Array bound = naive::product(magnitude(x), false, magnitude(w), true);
      for (std::size_t i = 0; with_bias && i < expected.size(); ++i) {
        expected[i] += b[i % b.size()];
        bound[i] += std::abs(b[i % b.size()]);
      }
      const Tensor y = poisoned({N, O});
      ops().linear(stream(), upload(x), upload(w), with_bias ? upload(b) : Tensor{}, y);
      expect_close(download(y), expected, summation_bound(static_cast<double>(I + 1), bound),
                   expected.shape.to_string());
    }
  }
}

TEST_P(LinearTest, BackwardInputIsTheProductWithTheWeights) {
  for (const auto& [N, I, O] : k_cases) {
    Values values(2);
    const Array dy = values.uniform({N, O}), w = values.uniform({O, I});
    const Tensor dx = poisoned({N, I});
    ops().linear_backward_input(stream(), upload(dy), upload(w), dx);
    expect_close(download(dx), naive::product(dy, false, w, false),
                 summation_bound(static_cast<double>(O),
                                 naive::product(magnitude(dy), false, magnitude(w), false)),
                 dx.shape.to_string());
  }
}

TEST_P(LinearTest, BackwardWeightsSumsOverTheBatchAndAccumulates) {
  for (const auto& [N, I, O] : k_cases) {
    Values values(3);
    const Array dy = values.uniform({N, O}), x = values.uniform({N, I});
    const Array dw_before = values.uniform({O, I}), db_before = values.uniform({O});
    const Array dw_value = naive::product(dy, true, x, false);
    const Array dw_bound = naive::product(magnitude(dy), true, magnitude(x), false);
    const auto terms = static_cast<double>(N + 1);
    for (const Accumulate accumulate : k_accumulates) {
      for (const bool with_bias : {true, false}) {
        const Tensor dw = gradient(accumulate, dw_before);
        const Tensor db = with_bias ? gradient(accumulate, db_before) : Tensor{};
        ops().linear_backward_weights(stream(), upload(dy), upload(x), accumulate, dw, db);
        const std::string what = dw.shape.to_string() + ", " + name_of(accumulate);
        expect_close(
            download(dw), accumulated(accumulate, dw_before, dw_value),
            summation_bound(terms, accumulated(accumulate, magnitude(dw_before), dw_bound)), what);
        if (!with_bias) continue;
        expect_close(download(db), accumulated(accumulate, db_before, naive::sum_per_channel(dy)),
                     summation_bound(terms, accumulated(accumulate, magnitude(db_before),
                                                        naive::sum_per_channel(magnitude(dy)))),
                     what);
      }
    }
  }
}

TEST_P(LinearTest, EmptyBatchLeavesOrZeroesGradients) {
  Values values(4);
  const Array w = values.uniform({3, 5}), b = values.uniform({3});
  const Tensor x = poisoned({0, 5}), y = poisoned({0, 3});
  ops().linear(stream(), x, upload(w), upload(b), y);
  ops().linear_backward_input(stream(), y, upload(w), x);
  for (const Accumulate accumulate : k_accumulates) {
    const Tensor dw = gradient(accumulate, w), db = gradient(accumulate, b);
    ops().linear_backward_weights(stream(), y, x, accumulate, dw, db);
    expect_equal(download(dw), accumulated(accumulate, w, Array(w.shape)), "dw");
    expect_equal(download(db), accumulated(accumulate, b, Array(b.shape)), "db");
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, LinearTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
