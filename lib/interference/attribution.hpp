#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interference/environment.hpp"

namespace dynpipe::interference {

/// Why a rank or a link takes longer than it should.
enum class Cause : std::uint8_t {
  none,
  compute,    ///< others run on its cores, its quota is used up, or the clock is slower
  memory,     ///< its work itself takes longer on the core: caches or memory shared with others
  steal,      ///< the host of the virtual machine keeps the cores
  network,    ///< messages take longer on the link
  imbalance,  ///< nothing disturbs it: the plan gives it more than others
};
std::string_view name_of(Cause cause);

/// A rank in an interval.
struct RankFigures {
  int rank = 0;
  Environment environment;
  /// Seconds that its work of an update takes undisturbed, by profile and plan; unknown: imbalance
  /// is not looked for.
  double expected_s = base::k_unknown;
};

/// A link in an interval, in one direction, what the receiver waited for the sender taken out.
struct LinkFigures {
  int from = 0, to = 0;                                          ///< ranks
  double latency_slowdown = 1, latency_error = base::k_unknown;  ///< relative standard deviation
  double rate_slowdown = 1, rate_error = base::k_unknown;        ///< of the time a byte takes
};

struct AttributionSettings {
  double least_rank_slowdown = 1.1;
  double least_link_slowdown = 1.3;
  double least_imbalance = 1.15;  ///< over the mean rank
  /// Standard deviations between what is measured and undisturbed, at least. One of 30,000 quiet
  /// intervals passes four, if errors are normal.
  double least_deviations = 4;
  // Relative standard deviations, where none is told and at the least.
  double usual_error = 0.05, least_error = 0.01;
};

/// What is the matter with one rank or link.
struct Finding {
  Cause cause = Cause::none;
  int rank = 0;
  int to = -1;            ///< of a link: the receiving rank, `rank` sends
  bool latency = false;   ///< of a link: rather its latency than its rate
  double slowdown = 1;    ///< as measured; of imbalance: its work over the mean rank's
  double confidence = 1;  ///< chance that there is such a cause and that it is the largest
};

/// One finding for each rank, then one for each link, `none` among them.
///
/// The logarithm of a rank's slowdown is the sum of what waiting for the core, quota, steal and the
/// rest explain. The rest is memory's where layers bound by memory are slowed by more than a
/// quarter of it more than those bound by arithmetic, compute's where they are not. The cause is
/// the one with the largest part, its confidence the chance that the part is larger than zero and
/// than the next one, if errors are normal.
std::vector<Finding> attribute(std::span<const RankFigures> ranks,
                               std::span<const LinkFigures> links,
                               const AttributionSettings& settings = {});

/// "rank 1 slowed 2.90x (compute, 97 % sure)", "link 0 -> 1 slowed 3.10x (network: rate, 99 %
/// sure)", "rank 2 has 1.40x the mean rank's work (imbalance, 98 % sure)", "rank 0 as expected".
std::string describe(const Finding& finding);

}  // namespace dynpipe::interference
