#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "base/shape.hpp"

namespace dynpipe::test {

/// Numbers on the host in row-major order: what a tensor of any backend stands for.
struct Array {
  base::Shape shape;
  std::vector<double> values;

  explicit Array(const base::Shape& shape_, double value = 0)
      : shape(shape_), values(static_cast<std::size_t>(shape_.elements()), value) {}
  Array(const base::Shape& shape_, std::vector<double> values_)
      : shape(shape_), values(std::move(values_)) {}

  std::size_t size() const { return values.size(); }
  double& operator[](std::size_t i) { return values[i]; }
  double operator[](std::size_t i) const { return values[i]; }
  double& operator()(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return values[place(n, c, h, w)];
  }
  double operator()(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return values[place(n, c, h, w)];
  }
  double& operator()(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * shape[1] + column)];
  }
  double operator()(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * shape[1] + column)];
  }

 private:
  std::size_t place(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return static_cast<std::size_t>(((n * shape[1] + c) * shape[2] + h) * shape[3] + w);
  }
};

/// f(a[i], ...) for every i.
template <typename Function, typename... Arrays>
Array map(Function f, const Array& first, const Arrays&... others) {
  Array result(first.shape);
  for (std::size_t i = 0; i < first.size(); ++i) result[i] = f(first[i], others[i]...);
  return result;
}

inline Array magnitude(const Array& a) {
  return map([](double x) { return std::abs(x); }, a);
}

/// Values for tests: fixed by the seed, and exact in float32, so that every backend gets the same.
class Values {
 public:
  explicit Values(std::uint32_t seed) : generator_(seed) {}

  /// Uniform in [low, high).
  Array uniform(const base::Shape& shape, double low = -1, double high = 1) {
    Array result(shape);
    for (double& value : result.values) {
      value =
          static_cast<float>(low + (high - low) * static_cast<double>(generator_()) * 0x1.0p-32);
    }
    return result;
  }

  /// All different, at least 1/64 apart and from 0, of both signs, in random order.
  Array distinct(const base::Shape& shape) {
    Array result(shape);
    const auto count = static_cast<double>(result.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = (static_cast<double>(i) - std::floor(count / 2) + 0.5) / 32;
    }
    for (std::size_t i = result.size(); i > 1; --i) {
      std::swap(result[i - 1], result[generator_() % i]);
    }
    return result;
  }

 private:
  std::mt19937 generator_;
};

}  // namespace dynpipe::test
