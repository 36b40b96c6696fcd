#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dynpipe::app {

/// Something that really disturbs the calling process, bounded in time.
struct DisturbanceSpec {
  enum class Kind {
    none,
    hog,     ///< `workers` busy loops, running `level` of the time
    quota,   ///< this process may run `level` of the time (control groups of version 1)
    stress,  ///< stress-ng with `stressor`
  } kind = Kind::none;
  int workers = 1;
  double level = 1;
  std::vector<std::string> stressor;  ///< its words: "--stream", "1"
  bool same_core = true;              ///< as this process, or another of its host

  /// "hog x3 same core", "quota 30 %", "stress-ng --stream 1 other core"
  std::string name() const;
};

/// Those that this machine allows, the mildest of each kind first, and none. `notes` are told which
/// are left out and why.
std::vector<DisturbanceSpec> possible_disturbances(int core, int other_core,
                                                   std::vector<std::string>& notes);

/// What it names, from now until its end of life. Each process that it starts ends with this one,
/// and of its own after `seconds`. Throws RunError where it cannot be had.
class Disturbance {
 public:
  Disturbance(const DisturbanceSpec& spec, int core, int other_core, int seconds);
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

  /// Until it is in full swing.
  double settling_s() const;

 private:
  void start_hog(int core, double level, int seconds);
  void start_stress(const std::vector<std::string>& stressor, int core, int seconds);
  void limit(double level);

  std::vector<pid_t> children_;  ///< each leads a process group of its own
  std::string group_;            ///< folder of the control group with the quota; empty: none
  double settling_s_ = 0;
};

/// Lets the calling thread run on this CPU alone. Throws RunError.
void pin_to(int cpu);

}  // namespace dynpipe::app
