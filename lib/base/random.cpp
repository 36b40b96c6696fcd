#include "base/random.hpp"

#include <cmath>
#include <numbers>

namespace dynpipe::base {
namespace {

std::uint64_t mixed(std::uint64_t x) {  // splitmix64's finaliser
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t hashed(std::string_view text) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

double unit_interval(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace

Philox::Philox(std::uint64_t seed, std::string_view purpose, std::uint64_t index)
    : key_(mixed(mixed(mixed(seed + 0x9e3779b97f4a7c15ULL) ^ hashed(purpose)) + index)) {}

Philox::Block Philox::block(std::uint64_t counter_low, std::uint64_t counter_high) const {
  Block c{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
          static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key_);
  auto k1 = static_cast<std::uint32_t>(key_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

double Philox::uniform(std::uint64_t draw) const {
  const Block words = block(draw);
  return unit_interval(words[0], words[1]);
}

double Philox::normal(std::uint64_t draw) const {
  const Block words = block(draw);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit_interval(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * unit_interval(words[2], words[3]));
}

std::uint64_t Philox::below(std::uint64_t draw, std::uint64_t bound) const {
  const Block words = block(draw);
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  // The high word of the 128-bit product (Lemire), in 64-bit halves.
  const std::uint64_t low = (bits & 0xffffffffU) * bound;
  return ((bits >> 32) * bound + (low >> 32)) >> 32;
}

}  // namespace dynpipe::base
