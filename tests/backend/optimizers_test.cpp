#include "backend/backend_test.hpp"

namespace dynpipe::test {
namespace {

constexpr std::int64_t k_sizes[] = {1, 7, 64, 1003};

class OptimizersTest : public BackendTest {
 protected:
  double u() const { return roundoff() + 0x1.0p-53; }
};

TEST_P(OptimizersTest, SgdFollowsPyTorch) {
  const ops::SgdStep steps[] = {
      {.learning_rate = 0.1, .momentum = 0, .weight_decay = 0, .nesterov = false},
      {.learning_rate = 0.1, .momentum = 0, .weight_decay = 5e-4, .nesterov = false},
      {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = false},
      {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true},
  };
  for (const ops::SgdStep& step : steps) {
    for (const std::int64_t size : k_sizes) {
      Values values(1);
      const Array w = values.uniform({size}), g = values.uniform({size}),
                  v = values.uniform({size});
      Array w_new(w.shape), v_new(w.shape), bound(w.shape), v_bound(w.shape);
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double decayed = g[i] + step.weight_decay * w[i];
        v_new[i] = step.momentum * v[i] + decayed;
        w_new[i] = w[i] - step.learning_rate *
                              (step.nesterov ? decayed + step.momentum * v_new[i] : v_new[i]);
        // No intermediate value is larger than this; none is rounded more than 8 times.
        const double size_of_step = 2 * (std::abs(g[i]) + step.weight_decay * std::abs(w[i]) +
                                         step.momentum * std::abs(v[i]));
        v_bound[i] = 8 * u() * size_of_step;
        bound[i] = 8 * u() * (std::abs(w[i]) + step.learning_rate * size_of_step);
      }
      for (const bool in_place : {false, true}) {
        const Tensor weights = upload(w), velocity = step.momentum > 0 ? upload(v) : Tensor{};
        const Tensor result = in_place ? weights : poisoned(w.shape);
        ops().sgd(stream(), step, weights, upload(g), velocity, result);
        expect_close(download(result), w_new, bound, "weights");
        if (velocity) expect_close(download(velocity), v_new, v_bound, "velocity");
        if (!in_place) expect_equal(download(weights), w, "the old version");
      }
    }
  }
}

TEST_P(OptimizersTest, AdamFollowsPyTorch) {
  for (const bool decoupled : {false, true}) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{10}}) {
      const ops::AdamStep step{.learning_rate = 0.01,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .epsilon = 1e-8,
                               .weight_decay = 0.1,
                               .decoupled_decay = decoupled,
                               .step = count};
      for (const std::int64_t size : k_sizes) {
        Values values(2);
        const Array w = values.uniform({size}), g = values.uniform({size});
        const Array m = values.uniform({size}), v = values.uniform({size}, 0.1, 1);
        Array w_new(w.shape), m_new(w.shape), v_new(w.shape);
        Array w_bound(w.shape), m_bound(w.shape), v_bound(w.shape);
        const auto updates = static_cast<double>(count);
        const double correction1 = 1 - std::pow(step.beta1, updates);
        const double correction2 = 1 - std::pow(step.beta2, updates);
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double gradient = g[i] + (decoupled ? 0 : step.weight_decay * w[i]);
          const double kept = w[i] * (decoupled ? 1 - step.learning_rate * step.weight_decay : 1);
          m_new[i] = step.beta1 * m[i] + (1 - step.beta1) * gradient;
          v_new[i] = step.beta2 * v[i] + (1 - step.beta2) * gradient * gradient;
          const double root = std::sqrt(v_new[i] / correction2);
          const double factor = step.learning_rate / correction1 / (root + step.epsilon);
          w_new[i] = kept - factor * m_new[i];
          // Each line's own roundings, on what it inherits from the line before.
          const double gradient_bound = 3 * u() * (std::abs(g[i]) + 0.1 * std::abs(w[i]));
          m_bound[i] = 4 * u() * (std::abs(m[i]) + std::abs(gradient)) + gradient_bound;
          v_bound[i] = 5 * u() * v_new[i] + 2 * std::abs(gradient) * gradient_bound;
          w_bound[i] =
              3 * u() * std::abs(kept) +
              factor * (m_bound[i] + std::abs(m_new[i]) * (v_bound[i] / (2 * v_new[i]) + 8 * u()));
        }
        for (const bool in_place : {false, true}) {
          const Tensor weights = upload(w), first = upload(m), second = upload(v);
          const Tensor result = in_place ? weights : poisoned(w.shape);
          ops().adam(stream(), step, weights, upload(g), first, second, result);
          expect_close(download(result), w_new, w_bound, "weights");
          expect_close(download(first), m_new, m_bound, "first moment");
          expect_close(download(second), v_new, v_bound, "second moment");
          if (!in_place) expect_equal(download(weights), w, "the old version");
        }
      }
    }
  }
}

TEST_P(OptimizersTest, NadamFollowsPyTorch) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{10}}) {
    const ops::NadamStep step{.learning_rate = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .mu = 0.5,
                              .next_mu = 0.6,
                              .mu_product = 0.25,
                              .step = count};
    for (const std::int64_t size : k_sizes) {
      Values values(3);
      const Array w = values.uniform({size}), g = values.uniform({size});
      const Array m = values.uniform({size}), v = values.uniform({size}, 0.1, 1);
      Array w_new(w.shape), m_new(w.shape), v_new(w.shape);
      Array w_bound(w.shape), m_bound(w.shape), v_bound(w.shape);
      const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(count));
      const double gradient_rate = step.learning_rate * (1 - 0.5) / (1 - 0.25);
      const double first_rate = step.learning_rate * 0.6 / (1 - 0.25 * 0.6);
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double gradient = g[i] + step.weight_decay * w[i];
        m_new[i] = step.beta1 * m[i] + (1 - step.beta1) * gradient;
        v_new[i] = step.beta2 * v[i] + (1 - step.beta2) * gradient * gradient;
        const double denominator = std::sqrt(v_new[i] / correction2) + step.epsilon;
        w_new[i] = w[i] - (gradient_rate * gradient + first_rate * m_new[i]) / denominator;
        // As for Adam: each line's own roundings, on what it inherits from the line before.
        const double gradient_bound = 3 * u() * (std::abs(g[i]) + 0.1 * std::abs(w[i]));
        m_bound[i] = 4 * u() * (std::abs(m[i]) + std::abs(gradient)) + gradient_bound;
        v_bound[i] = 5 * u() * v_new[i] + 2 * std::abs(gradient) * gradient_bound;
        const double parts = gradient_rate * std::abs(gradient) + first_rate * std::abs(m_new[i]);
        w_bound[i] =
            3 * u() * std::abs(w[i]) + (gradient_rate * gradient_bound + first_rate * m_bound[i] +
                                        parts * (v_bound[i] / (2 * v_new[i]) + 9 * u())) /
                                           denominator;
      }
      for (const bool in_place : {false, true}) {
        const Tensor weights = upload(w), first = upload(m), second = upload(v);
        const Tensor result = in_place ? weights : poisoned(w.shape);
        ops().nadam(stream(), step, weights, upload(g), first, second, result);
        expect_close(download(result), w_new, w_bound, "weights");
        expect_close(download(first), m_new, m_bound, "first moment");
        expect_close(download(second), v_new, v_bound, "second moment");
        if (!in_place) expect_equal(download(weights), w, "the old version");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OptimizersTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
