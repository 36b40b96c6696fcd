#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "probe/placement.hpp"

namespace dynpipe::app {

/// Where every rank runs, by rank and alike on all of them, with the threads that each shall use.
/// Collective.
std::vector<probe::RankPlace> share_places(comm::World& world, std::optional<int> asked_threads);

/// Host, cores, NUMA nodes and threads of each rank: a table for people.
std::string describe_places(const std::vector<probe::RankPlace>& places);

/// A place as text and back, for the way to the other ranks.
std::string pack(const probe::RankPlace& place);
probe::RankPlace unpack_place(const std::string& text);

}  // namespace dynpipe::app
