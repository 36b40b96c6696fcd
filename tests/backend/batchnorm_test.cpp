#include "backend/backend_test.hpp"
#include "backend/naive.hpp"

namespace dynpipe::test {
namespace {

constexpr double k_epsilon = 1e-5;

const Shape k_shapes[] = {{1, 8, 3, 2},  {2, 1, 5, 5},  {3, 12, 7, 3},
                          {5, 16, 6, 6}, {7, 24, 1, 1}, {16, 8, 14, 14}};

double square(double x) {
  return x * x;
}

/// Everything that the formulas of y and dx are made of, per channel or per element.
struct Statistics {
  double count;
  Array mean, variance;
  Array z;        ///< (x - mean) / sqrt(variance + epsilon)
  Array inverse;  ///< 1 / sqrt(variance + epsilon), per element
};

Array divided(const Array& a, double by) {
  return map([&](double x) { return x / by; }, a);
}

/// z for a given mean and variance.
Statistics with(const Array& x, const Array& mean, const Array& variance) {
  const Array centre = naive::spread_channels(mean, x.shape);
  const Array inverse = map([](double v) { return 1 / std::sqrt(v + k_epsilon); },
                            naive::spread_channels(variance, x.shape));
  return {static_cast<double>(x.shape.elements() / x.shape[1]), mean, variance,
          map([](double a, double m, double i) { return (a - m) * i; }, x, centre, inverse),
          inverse};
}

Statistics statistics(const Array& x) {
  const auto count = static_cast<double>(x.shape.elements() / x.shape[1]);
  const Array mean = divided(naive::sum_per_channel(x), count);
  const Array squares = map([](double a, double m) { return square(a - m); }, x,
                            naive::spread_channels(mean, x.shape));
  return with(x, mean, divided(naive::sum_per_channel(squares), count));
}

class BatchnormTest : public BackendTest {
 protected:
  double u() const { return roundoff() + 0x1.0p-53; }

  /// y = gamma z + beta may be off by what mean and variance are (per element), and some roundings.
  Array output_bound(const Array& x, const Statistics& s, const Array& gamma, const Array& beta,
                     const Array& mean_bound, const Array& variance_bound) const {
    const Array centre = naive::spread_channels(s.mean, x.shape);
    const Array g = naive::spread_channels(gamma, x.shape);
    const Array b = naive::spread_channels(beta, x.shape);
    const Array dm = naive::spread_channels(mean_bound, x.shape);
    const Array dv = naive::spread_channels(variance_bound, x.shape);
    Array bound(x.shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double shifted = (dm[i] + u() * (std::abs(x[i]) + std::abs(centre[i]))) * s.inverse[i];
      const double scaled = std::abs(s.z[i]) * (dv[i] * square(s.inverse[i]) / 2 + 6 * u());
      bound[i] = std::abs(g[i]) * (shifted + scaled) + 2 * u() * std::abs(b[i]);
    }
    return bound;
  }
};

TEST_P(BatchnormTest, NormalisesWithTheBatchsOwnStatistics) {
  for (const Shape& shape : k_shapes) {
    for (const Layout layout : layouts(shape)) {
      Values values(1);
      const Array x = values.uniform(shape, -1, 3);
      const Array gamma = values.uniform({shape[1]}), beta = values.uniform({shape[1]});
      const Tensor y = poisoned(shape, layout), mean = poisoned({shape[1]}),
                   variance = poisoned({shape[1]});
      ops().batchnorm(stream(), k_epsilon, upload(x, layout), upload(gamma), upload(beta), y, mean,
                      variance, Activation::none);

      const Statistics s = statistics(x);
      const Array mean_bound =
          summation_bound(s.count, divided(naive::sum_per_channel(magnitude(x)), s.count));
      // sum (x - mean - e)^2 / m = variance + e^2, each difference is off by u (|x| + |mean|) too.
      const double largest = 3 + 1;
      const Array variance_bound = map(
          [&](double v, double e) {
            return (s.count + 4) * u() * v + square(e) + 2 * (e + 2 * u() * largest) * std::sqrt(v);
          },
          s.variance, mean_bound);
      const std::string what = shape.to_string() + " " + name_of(layout);
      expect_close(download(mean), s.mean, mean_bound, what + " mean");
      expect_close(download(variance), s.variance, variance_bound, what + " variance");
      const Array expected =
          map([](double z, double g, double b) { return g * z + b; }, s.z,
              naive::spread_channels(gamma, shape), naive::spread_channels(beta, shape));
      expect_close(download(y), expected,
                   output_bound(x, s, gamma, beta, mean_bound, variance_bound), what + " y");
    }
  }
}

TEST_P(BatchnormTest, InferenceUsesTheGivenStatistics) {
  for (const Shape& shape : k_shapes) {
    for (const Layout layout : layouts(shape)) {
      Values values(2);
      const Array x = values.uniform(shape, -1, 3), none({shape[1]});
      const Array gamma = values.uniform({shape[1]}), beta = values.uniform({shape[1]});
      const Array mean = values.uniform({shape[1]}), variance = values.uniform({shape[1]}, 0.1, 2);
      const Tensor y = poisoned(shape, layout);
      ops().batchnorm_inference(stream(), k_epsilon, upload(x, layout), upload(gamma), upload(beta),
                                upload(mean), upload(variance), y, Activation::none);
      const Statistics s = with(x, mean, variance);
      expect_close(download(y),
                   map([](double z, double g, double b) { return g * z + b; }, s.z,
                       naive::spread_channels(gamma, shape), naive::spread_channels(beta, shape)),
                   output_bound(x, s, gamma, beta, none, none),
                   shape.to_string() + " " + name_of(layout));
    }
  }
}

TEST_P(BatchnormTest, BackwardGoesThroughMeanAndVariance) {
  for (const Shape& shape : k_shapes) {
    for (const Layout layout : layouts(shape)) {
      for (const Accumulate accumulate : k_accumulates) {
        Values values(3);
        const Array x = values.uniform(shape, -1, 3), dy = values.uniform(shape);
        const Array gamma = values.uniform({shape[1]});
        const Array dgamma_before = values.uniform({shape[1]});
        const Array dbeta_before = values.uniform({shape[1]});
        // What the backward is given, in the backend's precision: its own error is measured alone.
        const auto rounded = [](double a) { return double{static_cast<float>(a)}; };
        Statistics s = statistics(x);
        s = with(x, map(rounded, s.mean), map(rounded, s.variance));

        const Tensor dx = poisoned(shape, layout);
        const Tensor dgamma = gradient(accumulate, dgamma_before);
        const Tensor dbeta = gradient(accumulate, dbeta_before);
        ops().batchnorm_backward(stream(), k_epsilon, upload(dy, layout), upload(x, layout),
                                 upload(gamma), upload(s.mean), upload(s.variance), dx, accumulate,
                                 dgamma, dbeta);

        const Array dy_z = map([](double a, double z) { return a * z; }, dy, s.z);
        const Array dbeta_value = naive::sum_per_channel(dy);
        const Array dgamma_value = naive::sum_per_channel(dy_z);
        // z itself is off by 2 u (|x| + |mean|) inverse at most, with |x| and |mean| below 3.
        const Array z_bound = map([&](double inverse) { return 2 * u() * 6 * inverse; }, s.inverse);
        const Array dbeta_bound = summation_bound(s.count, naive::sum_per_channel(magnitude(dy)));
        const Array dgamma_bound =
            map([](double a, double b) { return a + b; },
                summation_bound(s.count + 4, naive::sum_per_channel(magnitude(dy_z))),
                naive::sum_per_channel(
                    map([](double a, double z) { return std::abs(a) * z; }, dy, z_bound)));
        Array expected(shape), bound(shape);
        const Array g = naive::spread_channels(gamma, shape);
        const Array db = naive::spread_channels(dbeta_value, shape);
        const Array dg = naive::spread_channels(dgamma_value, shape);
        const Array db_bound = naive::spread_channels(dbeta_bound, shape);
        const Array dg_bound = naive::spread_channels(dgamma_bound, shape);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double slope = g[i] * s.inverse[i];
          expected[i] = slope * (dy[i] - (db[i] + s.z[i] * dg[i]) / s.count);
          const double through_sums =
              db_bound[i] + std::abs(s.z[i]) * dg_bound[i] + std::abs(dg[i]) * z_bound[i];
          const double size =
              std::abs(dy[i]) + (std::abs(db[i]) + std::abs(s.z[i] * dg[i])) / s.count;
          bound[i] = std::abs(slope) * (through_sums / s.count + 12 * u() * size);
        }
        const std::string what =
            shape.to_string() + " " + name_of(layout) + " " + name_of(accumulate);
        const auto with_addition = [&](const Array& value_bound, const Array& before,
                                       const Array& value) {
          return map(
              [&](double e, double a, double v) { return e + u() * (std::abs(a) + std::abs(v)); },
              value_bound, before, value);
        };
        expect_close(download(dx), expected, bound, what + " dx");
        expect_close(download(dgamma), accumulated(accumulate, dgamma_before, dgamma_value),
                     with_addition(dgamma_bound, dgamma_before, dgamma_value), what + " dgamma");
        expect_close(download(dbeta), accumulated(accumulate, dbeta_before, dbeta_value),
                     with_addition(dbeta_bound, dbeta_before, dbeta_value), what + " dbeta");
      }
    }
  }
}

TEST_P(BatchnormTest, EmptyBatchLeavesOrZeroesGradients) {
  const Shape shape{0, 8, 4, 4};
  Values values(4);
  const Array channels = values.uniform({8});
  for (const Layout layout : layouts(shape)) {
    const Tensor images = poisoned(shape, layout);
    ops().batchnorm_inference(stream(), k_epsilon, images, upload(channels), upload(channels),
                              upload(channels), upload(channels), images, Activation::none);
    for (const Accumulate accumulate : k_accumulates) {
      const Tensor dgamma = gradient(accumulate, channels), dbeta = gradient(accumulate, channels);
      ops().batchnorm_backward(stream(), k_epsilon, images, images, upload(channels),
                               upload(channels), upload(channels), images, accumulate, dgamma,
                               dbeta);
      const Array expected = accumulated(accumulate, channels, Array(channels.shape));
      expect_equal(download(dgamma), expected, "dgamma");
      expect_equal(download(dbeta), expected, "dbeta");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BatchnormTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace dynpipe::test
