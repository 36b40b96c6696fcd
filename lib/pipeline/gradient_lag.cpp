#include "pipeline/gradient_lag.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace dynpipe::pipeline {
namespace {

constexpr std::int64_t k_most_elements = std::int64_t{1} << 16;
constexpr std::int64_t k_run = 16;

double product(const std::vector<float>& a, const std::vector<float>& b) {
  // In parts, so that they may be added side by side.
  std::array<float, 16> parts{};
  double total = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += 4096) {
    const std::size_t end = std::min(begin + 4096, a.size());
    parts.fill(0);
    std::size_t i = begin;
    for (; i + 16 <= end; i += 16) {
      for (std::size_t k = 0; k < 16; ++k) parts[k] += a[i + k] * b[i + k];
    }
    for (; i < end; ++i) parts[0] += a[i] * b[i];
    for (const float part : parts) total += static_cast<double>(part);
  }
  return total;
}

template <typename T>
void gather(const T* from, std::int64_t count, float* into) {
  for (std::int64_t i = 0; i < count; ++i) into[i] = static_cast<float>(from[i]);
}

}  // namespace

GradientLag::GradientLag(const nn::FlatLayout& parameters, tensor::DType dtype, std::uint64_t seed,
                         std::int64_t every)
    : dtype_(dtype), every_(every) {
  // Between the tensors of a flat buffer lies memory that nobody writes.
  std::vector<Run> all;
  std::int64_t elements = 0;
  for (const nn::FlatLayout::Entry& entry : parameters.entries()) {
    const std::int64_t size = entry.shape.elements();
    elements += size;
    for (std::int64_t at = 0; at < size; at += k_run) {
      all.push_back({entry.offset + at, std::min(k_run, size - at)});
    }
  }
  std::int64_t read = 0;
  if (elements <= k_most_elements) {
    runs_ = std::move(all);
    read = elements;
  } else {
    // One of every stretch of equal length, so that every tensor has its share.
    const base::Philox random(seed, "gradient elements");
    const std::int64_t wanted = k_most_elements / k_run;
    const auto there = static_cast<std::int64_t>(all.size());
    for (std::int64_t i = 0; i < wanted; ++i) {
      const std::int64_t begin = i * there / wanted;
      const std::int64_t end = (i + 1) * there / wanted;
      if (begin == end) continue;
      const auto within = static_cast<std::int64_t>(
          random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(end - begin)));
      const Run& run = runs_.emplace_back(all[static_cast<std::size_t>(begin + within)]);
      read += run.count;
    }
  }
  scale_ = read > 0 ? static_cast<double>(elements) / static_cast<double>(read) : 0;
  for (Kept& kept : kept_) kept.elements.resize(static_cast<std::size_t>(read));
}

void GradientLag::take(std::int64_t group, const std::byte* gradients, device::Stream& stream) {
  const std::int64_t left = every_ - 1 - group % every_;  // groups until the next comparison
  if (left > k_lags) return;
  device::launch(stream, [this, group, gradients, compares = left == 0] {
    keep(group, gradients);
    if (compares) compare(group);
  });
}

void GradientLag::keep(std::int64_t group, const std::byte* gradients) {
  Kept& into = place(group);
  into.group = group;
  float* next = into.elements.data();
  for (const Run& run : runs_) {
    if (dtype_ == tensor::DType::float64) {
      gather(reinterpret_cast<const double*>(gradients) + run.first, run.count, next);
    } else {
      gather(reinterpret_cast<const float*>(gradients) + run.first, run.count, next);
    }
    next += run.count;
  }
}

void GradientLag::compare(std::int64_t group) {
  const Kept& own = place(group);
  LagSample sample;
  sample.group = group;
  sample.square = scale_ * product(own.elements, own.elements);
  for (int lag = 1; lag <= k_lags; ++lag) {
    if (group < lag) return;
    const Kept& other = place(group - lag);
    if (other.group != group - lag) return;
    const auto i = static_cast<std::size_t>(lag - 1);
    sample.products[i] = scale_ * product(own.elements, other.elements);
    sample.squares[i] = scale_ * product(other.elements, other.elements);
  }
  samples_.push_back(sample);
}

std::vector<double> lag_cosines(const std::vector<std::vector<LagSample>>& stages) {
  if (stages.empty() || stages.front().empty()) return {};
  const std::size_t count = stages.front().size();
  std::vector<double> cosines(LagSample::k_lags);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      double product = 0, square = 0, other = 0;
      for (const std::vector<LagSample>& stage : stages) {
        product += stage[k].products[i];
        square += stage[k].square;
        other += stage[k].squares[i];
      }
      const double lengths = std::sqrt(square) * std::sqrt(other);
      if (lengths > 0) cosines[i] += product / lengths / static_cast<double>(count);
    }
  }
  return cosines;
}

}  // namespace dynpipe::pipeline
