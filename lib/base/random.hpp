#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dynpipe::base {

/// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", SC'11). A value depends on the key and the counter alone, never on what was drawn
/// before, so every plan, rank count and order of work draws the same numbers.
class Philox {
 public:
  using Block = std::array<std::uint32_t, 4>;

  /// The stream of the things named: e.g. Philox(seed, "shuffle", epoch).
  explicit Philox(std::uint64_t seed, std::string_view purpose = {}, std::uint64_t index = 0);

  /// Four independent 32-bit words for this 128-bit counter.
  Block block(std::uint64_t counter_low, std::uint64_t counter_high = 0) const;

  /// Uniform in [0, 1), 53 bits. `draw` numbers the values of the stream.
  double uniform(std::uint64_t draw) const;
  /// Standard normal (Box-Muller on the two uniforms of block `draw`).
  double normal(std::uint64_t draw) const;
  /// Uniform integer in [0, bound), bound < 2^32, with a bias below 2^-32.
  std::uint64_t below(std::uint64_t draw, std::uint64_t bound) const;

 private:
  std::uint64_t key_;
};

}  // namespace dynpipe::base
