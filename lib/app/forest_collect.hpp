#pragma once

#include "app/forest_options.hpp"

namespace dynpipe::app {

/// `dynpipe forest collect`: measures in windows, in each of which one disturbance is on and some
/// stages run, each twice; one window of four is quiet. The first ones are, and have every stage:
/// what is quiet is the reference of all. Writes the data set after every few windows; prints
/// progress. Throws InputError and RunError.
void collect_forest_data(const CollectOptions& options);

}  // namespace dynpipe::app
