#include "interference/attribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dynpipe::interference {
namespace {

/// Chance that a standard normal number is below z.
double normal(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

double error_of(double told, const AttributionSettings& settings) {
  return std::max(settings.least_error, base::is_known(told) ? told : settings.usual_error);
}

bool stands_out(double slowdown, double error, double least, const AttributionSettings& settings) {
  return slowdown >= least && std::log(slowdown) >= settings.least_deviations * error;
}

double part(double lost_share) {
  return std::log(stretch(lost_share));
}

/// Chance that memory is what slows work by exp(`rest`) on the core.
double chance_of_memory(const Environment& e, double rest, double error) {
  const double more = std::log(e.memory_slowdown) - std::log(e.arithmetic_slowdown);
  if (base::is_known(more)) {
    constexpr double k_share = 0.25;
    return normal((more - k_share * rest) / (std::sqrt(2.0) * error));
  }
  // Layers of one kind alone: they tell nothing. Where the OS says that nobody waits for the core,
  // shared memory is the more likely.
  constexpr double k_likely = 0.75, k_unlikely = 0.25;
  return base::is_known(e.run_wait_share) ? k_likely : k_unlikely;
}

constexpr std::array k_kinds = {Cause::compute, Cause::memory, Cause::steal};
/// Of each of `k_kinds`.
using Parts = std::array<double, k_kinds.size()>;

/// Chance of each part to be the largest, if each is off by a normal error.
Parts chances_of_largest(const Parts& parts, double error) {
  Parts chances{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    double next = 0;
    for (std::size_t j = 0; j < parts.size(); ++j) {
      if (j != i) next = std::max(next, parts[j]);
    }
    chances[i] = normal((parts[i] - next) / (std::sqrt(2.0) * error));
  }
  return chances;
}

/// Of a rank that stands out.
Finding cause_of(const RankFigures& figures, double error) {
  const Environment& e = figures.environment;
  const double rest = std::max(0.0, std::log(core_slowdown(e)));
  const double memory = chance_of_memory(e, rest, error);
  const double waiting = part(e.run_wait_share) + part(e.throttled_share);
  const double stolen = part(e.stolen_share);
  const Parts if_memory = chances_of_largest({waiting, rest, stolen}, error);
  const Parts if_not = chances_of_largest({waiting + rest, 0, stolen}, error);
  Finding finding{.rank = figures.rank, .slowdown = e.slowdown, .confidence = 0};
  for (std::size_t i = 0; i < k_kinds.size(); ++i) {
    const double chance = memory * if_memory[i] + (1 - memory) * if_not[i];
    if (chance <= finding.confidence) continue;
    finding.cause = k_kinds[i];
    finding.confidence = chance;
  }
  finding.confidence *= normal(std::log(e.slowdown) / error);
  return finding;
}

/// Chance that a rank that does not stand out is not slowed by as much as would count.
double chance_of_none(double slowdown, double error, double least) {
  return normal((std::log(least) - std::log(slowdown)) / error);
}

double mean_expected_s(std::span<const RankFigures> ranks) {
  double sum = 0;
  for (const RankFigures& figures : ranks) sum += figures.expected_s;
  return ranks.empty() ? base::k_unknown : sum / static_cast<double>(ranks.size());
}

Finding of_rank(const RankFigures& figures, double mean_s, const AttributionSettings& settings) {
  const double slowdown = figures.environment.slowdown;
  const double error = error_of(figures.environment.slowdown_error, settings);
  if (stands_out(slowdown, error, settings.least_rank_slowdown, settings)) {
    return cause_of(figures, error);
  }
  const double work = figures.expected_s / mean_s;
  if (work >= settings.least_imbalance) {  // false where it is unknown
    const double beyond = std::log(work) - std::log(slowdown > 1 ? slowdown : 1);
    return {.cause = Cause::imbalance,
            .rank = figures.rank,
            .slowdown = work,
            .confidence = normal(beyond / error)};
  }
  return {.rank = figures.rank,
          .slowdown = slowdown,
          .confidence = chance_of_none(slowdown, error, settings.least_rank_slowdown)};
}

Finding of_link(const LinkFigures& link, const AttributionSettings& settings) {
  const double latency_error = error_of(link.latency_error, settings);
  const double rate_error = error_of(link.rate_error, settings);
  const double latency_z = std::log(link.latency_slowdown) / latency_error;
  const double rate_z = std::log(link.rate_slowdown) / rate_error;
  const double least = settings.least_link_slowdown;
  const bool late = stands_out(link.latency_slowdown, latency_error, least, settings);
  const bool slow = stands_out(link.rate_slowdown, rate_error, least, settings);
  Finding finding{.rank = link.from, .to = link.to};
  finding.latency = late && (!slow || link.latency_slowdown > link.rate_slowdown);
  finding.slowdown = finding.latency ? link.latency_slowdown : link.rate_slowdown;
  if (late || slow) {
    finding.cause = Cause::network;
    finding.confidence = normal(finding.latency ? latency_z : rate_z);
  } else {
    finding.confidence = chance_of_none(link.latency_slowdown, latency_error, least) *
                         chance_of_none(link.rate_slowdown, rate_error, least);
  }
  return finding;
}

}  // namespace

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::none:
      return "none";
    case Cause::compute:
      return "compute";
    case Cause::memory:
      return "memory";
    case Cause::steal:
      return "steal";
    case Cause::network:
      return "network";
    case Cause::imbalance:
      break;
  }
  return "imbalance";
}

std::vector<Finding> attribute(std::span<const RankFigures> ranks,
                               std::span<const LinkFigures> links,
                               const AttributionSettings& settings) {
  const double mean_s = mean_expected_s(ranks);
  std::vector<Finding> findings;
  for (const RankFigures& figures : ranks) findings.push_back(of_rank(figures, mean_s, settings));
  for (const LinkFigures& link : links) findings.push_back(of_link(link, settings));
  return findings;
}

std::string describe(const Finding& finding) {
  const double percent = 100 * finding.confidence;
  const std::string where = finding.to < 0 ? fmt::format("rank {}", finding.rank)
                                           : fmt::format("link {} -> {}", finding.rank, finding.to);
  switch (finding.cause) {
    case Cause::none:
      return where + " as expected";
    case Cause::imbalance:
      return fmt::format("{} has {:.2f}x the mean rank's work (imbalance, {:.0f} % sure)", where,
                         finding.slowdown, percent);
    case Cause::network:
      return fmt::format("{} slowed {:.2f}x (network: {}, {:.0f} % sure)", where, finding.slowdown,
                         finding.latency ? "latency" : "rate", percent);
    default:
      return fmt::format("{} slowed {:.2f}x ({}, {:.0f} % sure)", where, finding.slowdown,
                         name_of(finding.cause), percent);
  }
}

}  // namespace dynpipe::interference
