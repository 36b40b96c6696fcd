#pragma once

#include <map>
#include <vector>

namespace dynpipe::testing {

/// The channels of each flow, by its number.
using FlowChannels = std::map<int, std::vector<int>>;

/// Max-min rates, from scratch, by filling all flows alike until a channel is full (Bertsekas and
/// Gallager, "Data Networks", 6.5.2).
std::map<int, double> water_filling(const std::vector<double>& capacities,
                                    const FlowChannels& flows);

}  // namespace dynpipe::testing
