#include "backend/backend_test.hpp"

namespace dynpipe::test {
namespace {

class LossTest : public BackendTest {
 protected:
  struct Result {
    Array totals, gradient;
  };

  Result run(const Array& logits, const std::vector<std::int32_t>& labels, double scale,
             Accumulate accumulate, const Array& before, bool with_gradient = true,
             double smoothing = 0) {
    const Tensor totals = poisoned_of(DType::float64, {2});
    if (accumulate == Accumulate::add) {
      std::copy_n(before.values.begin(), 2, totals.as<double>());
    }
    const Shape batch{static_cast<std::int64_t>(labels.size())};
    Tensor classes{allocate(labels.size() * 4), DType::int32, Layout::plain, batch};
    std::copy(labels.begin(), labels.end(), classes.as<std::int32_t>());
    const Tensor gradient = with_gradient ? poisoned(logits.shape) : Tensor{};
    ops().softmax_cross_entropy(stream(), smoothing, upload(logits), classes, scale, accumulate,
                                totals, gradient);
    return {download(totals), with_gradient ? download(gradient) : Array(Shape{0})};
  }
};

TEST_P(LossTest, OfEqualLogitsIsTheLogarithmOfTheirNumber) {
  // The first of the equals is taken as the guess: right for the first sample only.
  const Result result = run(Array({2, 4}, 3), {0, 2}, 1, Accumulate::set, Array({2}));
  EXPECT_NEAR(result.totals[0], 2 * std::log(4.0), 1e-14);
  EXPECT_EQ(result.totals[1], 1);
  EXPECT_EQ(result.gradient.values,
            (std::vector<double>{-0.75, 0.25, 0.25, 0.25, 0.25, 0.25, -0.75, 0.25}));
}

TEST_P(LossTest, IsSoftmaxCrossEntropyAndAccumulates) {
  for (const std::int64_t classes : {1, 2, 10, 1000}) {
    Values values(1);
    const Array logits = values.uniform({7, classes}, -30, 30);
    const double scale = 1.0 / 64;
    std::vector<std::int32_t> labels;
    Array gradient(logits.shape);
    double loss = 0, correct = 0;
    for (std::int64_t n = 0; n < 7; ++n) {
      labels.push_back(static_cast<std::int32_t>(n * 37 % classes));
      double sum = 0;
      std::int64_t guess = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        sum += std::exp(logits(n, k));
        if (logits(n, k) > logits(n, guess)) guess = k;
      }
      loss += std::log(sum) - logits(n, labels.back());
      correct += guess == labels.back() ? 1 : 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        gradient(n, k) = scale * (std::exp(logits(n, k)) / sum - (k == labels.back() ? 1 : 0));
      }
    }
    // Everything is float64 in every backend; only dlogits are rounded. Logits up to 30 lose 30 u
    // in the exponent, both here and there.
    const double doubles = (static_cast<double>(classes) + 70) * 0x1.0p-52;
    const Array bound =
        map([&](double g) { return doubles * scale + roundoff() * std::abs(g); }, gradient);
    const Array before({2}, {2.5, 3});
    for (const Accumulate accumulate : k_accumulates) {
      const Result result = run(logits, labels, scale, accumulate, before);
      const Array totals = accumulated(accumulate, before, Array({2}, {loss, correct}));
      expect_close(result.totals, totals, Array({2}, 7 * 60 * doubles), name_of(accumulate));
      expect_close(result.gradient, gradient, bound, name_of(accumulate));
      expect_equal(run(logits, labels, scale, accumulate, before, false).totals, result.totals,
                   "without a gradient");
    }
  }
}

TEST_P(LossTest, SmoothsLabelsAsPyTorchDoes) {
  for (const double smoothing : {0.1, 1.0}) {
    for (const std::int64_t classes : {1, 2, 10, 1000}) {
      Values values(2);
      const Array logits = values.uniform({3, classes}, -30, 30);
      const double scale = 1.0 / 64;
      std::vector<std::int32_t> labels;
      Array gradient(logits.shape);
      double loss = 0;
      for (std::int64_t n = 0; n < 3; ++n) {
        labels.push_back(static_cast<std::int32_t>(n * 37 % classes));
        double sum = 0;
        for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(logits(n, k));
        for (std::int64_t k = 0; k < classes; ++k) {
          const double target =
              (k == labels.back() ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
          loss -= target * (logits(n, k) - std::log(sum));
          gradient(n, k) = scale * (std::exp(logits(n, k)) / sum - target);
        }
      }
      // As without smoothing.
      const double doubles = (static_cast<double>(classes) + 70) * 0x1.0p-52;
      const Array bound =
          map([&](double g) { return doubles * scale + roundoff() * std::abs(g); }, gradient);
      const Result result =
          run(logits, labels, scale, Accumulate::set, Array({2}), true, smoothing);
      EXPECT_NEAR(result.totals[0], loss, 3 * 60 * doubles);
      expect_close(result.gradient, gradient, bound, "gradient");
    }
  }
}

TEST_P(LossTest, SurvivesLogitsWhoseExponentialsDoNotExist) {
  const Result result = run(Array({1, 3}, {1e4, -1e4, 0}), {1}, 1, Accumulate::set, Array({2}));
  EXPECT_EQ(result.totals[0], 2e4);
  EXPECT_EQ(result.gradient.values, (std::vector<double>{1, -1, 0}));
}

TEST_P(LossTest, NanInAnyLogitReachesTheLoss) {
  for (std::size_t place = 0; place < 3; ++place) {
    Array logits({1, 3}, {0.5, 1, 0});
    logits[place] = NAN;
    EXPECT_TRUE(std::isnan(run(logits, {1}, 1, Accumulate::set, Array({2})).totals[0])) << place;
  }
}

TEST_P(LossTest, EmptyBatchLeavesOrZeroesTotals) {
  const Array before({2}, {2.5, 3});
  for (const Accumulate accumulate : k_accumulates) {
    expect_equal(run(Array({0, 3}), {}, 1, accumulate, before).totals,
                 accumulated(accumulate, before, Array({2})), name_of(accumulate));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, LossTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
