#pragma once

#include <cstdint>
#include <span>

#include "base/known.hpp"
#include "model/model.hpp"
#include "model/profile.hpp"

namespace dynpipe::interference {

/// What one layer does for a microbatch, forward and backward together.
struct LayerWork {
  double flops = 0;             ///< three forwards' worth
  double weight_bytes = 0;      ///< parameters read twice, gradients written once
  double activation_bytes = 0;  ///< input, output and what is kept, three times

  double bytes() const { return weight_bytes + activation_bytes; }
  LayerWork& operator+=(const LayerWork& other);
};
LayerWork work_of(const model::Layer& layer, std::int64_t samples, double element_bytes);

/// What a layer waits for when it runs alone.
enum class Bound : std::uint8_t {
  arithmetic,   ///< at least `k_arithmetic_flops_per_byte` operations for each byte it touches
  weights,      ///< fewer, and most of the bytes are parameters
  activations,  ///< fewer, and most are activations
};
inline constexpr double k_arithmetic_flops_per_byte = 8;
Bound bound_of(const LayerWork& work);

/// What is known of a stage before it runs anywhere: layers next to each other, for one microbatch,
/// forward and backward, undisturbed.
struct StageFeatures {
  LayerWork work;
  double seconds = 0;           ///< by the profile
  double parameter_bytes = 0;   ///< of one version
  double activation_bytes = 0;  ///< kept from the forward to the backward
  // Shares of `seconds`; the rest is bound by arithmetic.
  double weights_share = 0, activations_share = 0;

  /// What it touches again and again: weights, their gradients, what it keeps.
  double working_set_bytes() const { return 2 * parameter_bytes + activation_bytes; }
};

/// Of layers [first, last] for a microbatch of `samples`.
StageFeatures stage_features(const model::Model& model, const model::Profile& profile, int first,
                             int last, std::int64_t samples);

/// How much longer the layers of a stage took than the profile says, by what they are bound by;
/// unknown where less than `k_least_share` of the stage's time is such layers'.
struct BoundSlowdowns {
  double arithmetic = base::k_unknown;
  double memory = base::k_unknown;  ///< of those bound by weights and by activations together
};
inline constexpr double k_least_share = 0.1;
/// `layer_s`: of layers from `first` on, seconds of a microbatch, forward and backward.
BoundSlowdowns slowdowns_by_bound(const model::Model& model, const model::Profile& profile,
                                  int first, std::int64_t samples, std::span<const double> layer_s);

}  // namespace dynpipe::interference
