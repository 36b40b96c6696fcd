#pragma once

#include <cstdint>
#include <vector>

#include "planner/partition.hpp"

namespace dynpipe::planner {

/// Sketches worth simulating, best first by formula, at most `most`. All cuts there are, where they
/// are few; else those of dynamic programming under several rules, and what small steps make of
/// them: a layer or a rank to the neighbour, two stages in one, one in two.
std::vector<Sketch> candidates(const Estimator& estimator, const CutSettings& settings,
                               std::size_t most);

/// Cuts one small step away.
std::vector<Parts> neighbours(const Parts& parts, const CutSettings& settings);

/// Whether `candidates` looks at all cuts.
bool few_cuts(int layers, int ranks, bool replicas);

/// A cut whose fullest rank has the least memory that any has: of all cuts where they are few, else
/// of those that were found.
struct Leanest {
  Parts parts;
  double bytes = std::numeric_limits<double>::infinity();
};
Leanest leanest_cut(const Estimator& estimator, const CutSettings& settings);

}  // namespace dynpipe::planner
