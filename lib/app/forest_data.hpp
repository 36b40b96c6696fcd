#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/forest_stages.hpp"
#include "probe/activity.hpp"

namespace dynpipe::app {

/// A slice of time in which a stage ran, in pieces between those of other stages, and something
/// disturbed it or nothing did.
struct Measurement {
  double window = 0;  ///< slices of one window have the same disturbance, without a break
  double disturbance = 0, stage = 0;  ///< numbers in the data set's lists
  double groups = 0;
  BoundSeconds seconds;  ///< of a microbatch
  double error = 0;      ///< standard error of its mean, relative
  probe::ActivitySample activity;
};

/// What `dynpipe forest collect` has measured: an HDF5 file of lists and one table.
struct ForestData {
  std::string name;  ///< of the file
  std::string machine;
  double slice_s = 0;      ///< that a stage ran in each measurement, in pieces
  double collected_s = 0;  ///< that the collection took
  std::vector<StageDescription> stages;
  std::vector<std::string> disturbances;  ///< the first is "none"
  std::vector<Measurement> measurements;
};

/// Throws InputError naming file and object: no such data set, one of another version, numbers that
/// are not in its lists.
ForestData read_forest_data(const std::string& file);
/// In place of what the file held; a reader meanwhile finds one or the other. Throws InputError or
/// RunError.
void write_forest_data(const ForestData& data, const std::string& file);

}  // namespace dynpipe::app
