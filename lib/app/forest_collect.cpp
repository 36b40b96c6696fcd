#include "app/forest_collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <thread>

#include "app/disturbance.hpp"
#include "app/forest_data.hpp"
#include "app/forest_stages.hpp"
#include "app/measured_profile.hpp"
#include "app/terminal.hpp"
#include "app/text_file.hpp"
#include "base/errors.hpp"
#include "base/random.hpp"
#include "nn/layer.hpp"
#include "probe/cpus.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::size_t k_stages_a_window = 6;
constexpr int k_quiet_every = 4;
constexpr int k_save_every = 8;
/// Pieces that a slice is measured in.
constexpr int k_rounds = 5;
constexpr int k_cuts = 2;
const std::vector<std::int64_t> k_samples = {2, 8};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<model::Model> wanted_models(const CollectOptions& options) {
  if (options.models.empty()) return mixed_models();
  std::vector<model::Model> models;
  for (const std::string& file : split(options.models)) {
    models.push_back(model::parse_model(read_text_file(file), file, nn::layer_types()));
    check_sizes(models.back(), k_samples);
  }
  return models;
}

/// The CPU that stages run on, and one of another core where there is one.
struct Cores {
  int own = 0, other = 0;
};

Cores choose_cores(const CollectOptions& options) {
  const std::vector<int> allowed = probe::allowed_cpus();
  if (allowed.empty()) throw base::RunError("the system does not tell on which CPUs to run");
  const int own = options.core.value_or(allowed.back());
  if (std::find(allowed.begin(), allowed.end(), own) == allowed.end()) {
    throw InputError("", "--core", fmt::format("this process may not run on CPU {}", own));
  }
  for (const int cpu : allowed) {
    if (cpu != own) return {own, cpu};
  }
  return {own, own};
}

std::vector<DisturbanceSpec> wanted_disturbances(const CollectOptions& options, Cores cores,
                                                 std::vector<std::string>& notes) {
  auto all = possible_disturbances(cores.own, cores.other, notes);
  if (options.only.empty()) return all;
  std::vector<DisturbanceSpec> wanted{all.front()};
  for (const DisturbanceSpec& spec : all) {
    const auto words = split(options.only);
    if (spec.kind != DisturbanceSpec::Kind::none &&
        std::any_of(words.begin(), words.end(), [&](const std::string& word) {
          return spec.name().find(word) != std::string::npos;
        })) {
      wanted.push_back(spec);
    }
  }
  if (wanted.size() == 1) {
    throw InputError("", "--only",
                     fmt::format("no disturbance here has '{}' in its name", options.only));
  }
  return wanted;
}

/// Numbers 0 .. count - 1 in an order of their own for every `index`.
std::vector<std::size_t> shuffled(std::size_t count, const char* purpose, std::uint64_t seed,
                                  std::uint64_t index) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  const base::Philox random(seed, purpose, index);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i, i)]);
  return order;
}

class Collection {
 public:
  explicit Collection(const CollectOptions& options)
      : options_(options),
        cores_(choose_cores(options)),
        disturbances_(wanted_disturbances(options, cores_, notes_)),
        stages_(wanted_models(options), k_samples, k_cuts, clock_) {
    data_.name = options.out;
    data_.machine = profile_device(1);
    data_.slice_s = options.slice_s;
    data_.stages = stages_.stages();
    for (const DisturbanceSpec& spec : disturbances_) data_.disturbances.push_back(spec.name());
  }

  void run() {
    go_on();
    for (const std::string& note : notes_) fmt::print("{}\n", note);
    fmt::print("{} stages of {} mixes of layers on CPU {}, {} disturbances\n", data_.stages.size(),
               mixes(), cores_.own, disturbances_.size() - 1);
    pin_to(cores_.own);
    const double wanted_s = 60 * options_.minutes;
    while (data_.collected_s < wanted_s || windows_ <= quiet_windows()) {
      const double began_s = clock_.now_s();
      measure_window();
      data_.collected_s += clock_.now_s() - began_s;
      if (windows_ % k_save_every == 0) save();
      tell(wanted_s);
    }
    save();
    if (Terminal::of_stdout()) fmt::print("\r\x1b[K");
    fmt::print("{} slices in {} windows, {:.1f} minutes: {}\n", data_.measurements.size(), windows_,
               data_.collected_s / 60, options_.out);
  }

 private:
  /// With what an earlier run has measured.
  void go_on() {
    if (!std::filesystem::exists(options_.out)) return save();
    const ForestData before = read_forest_data(options_.out);
    const auto same_stage = [](const StageDescription& a, const StageDescription& b) {
      return a.name == b.name;
    };
    if (before.disturbances != data_.disturbances || before.slice_s != data_.slice_s ||
        !std::equal(before.stages.begin(), before.stages.end(), data_.stages.begin(),
                    data_.stages.end(), same_stage)) {
      throw InputError(options_.out, "",
                       "was collected with other stages, disturbances or another --slice: take "
                       "another file, or remove it");
    }
    if (before.machine != data_.machine) {
      throw InputError(options_.out, "machine",
                       fmt::format("is {}, here is {}", before.machine, data_.machine));
    }
    data_.measurements = before.measurements;
    data_.collected_s = before.collected_s;
    for (const Measurement& m : data_.measurements) {
      windows_ = std::max(windows_, static_cast<int>(m.window) + 1);
    }
  }

  std::size_t mixes() const {
    std::vector<std::string> names;
    for (const StageDescription& stage : data_.stages) names.push_back(stage.mix);
    return static_cast<std::size_t>(std::unique(names.begin(), names.end()) - names.begin());
  }

  /// So many windows at the start are quiet, until all stages have run.
  int quiet_windows() const {
    return static_cast<int>((data_.stages.size() + k_stages_a_window - 1) / k_stages_a_window);
  }

  std::size_t disturbance_of(int window) const {
    const int later = window - quiet_windows();
    const std::size_t kinds = disturbances_.size() - 1;
    if (later < 0 || later % k_quiet_every == 0 || kinds == 0) return 0;
    const auto turn = static_cast<std::size_t>(later - later / k_quiet_every - 1);
    return 1 + shuffled(kinds, "disturbances", options_.seed, turn / kinds)[turn % kinds];
  }

  std::vector<std::size_t> stages_of(int window) const {
    const std::size_t count = data_.stages.size(), some = std::min(k_stages_a_window, count);
    std::vector<std::size_t> chosen;
    if (window < quiet_windows()) {
      for (std::size_t i = 0; i < some; ++i) {
        chosen.push_back((static_cast<std::size_t>(window) * some + i) % count);
      }
      return chosen;
    }
    chosen = shuffled(count, "stages", options_.seed, static_cast<std::uint64_t>(window));
    chosen.resize(some);
    return chosen;
  }

  void measure_window() {
    const std::size_t which = disturbance_of(windows_);
    const std::vector<std::size_t> chosen = stages_of(windows_);
    // More than ever needed: it ends with the window.
    constexpr double k_patience = 20;
    const int bound_s =
        5 + static_cast<int>(k_patience * options_.slice_s * static_cast<double>(chosen.size()));
    const Disturbance disturbance(disturbances_[which], cores_.own, cores_.other, bound_s);
    std::this_thread::sleep_for(std::chrono::duration<double>(disturbance.settling_s()));
    probe::Activity activity(clock_);  // of the control group that the quota is of
    for (int turn = 0; turn < 2; ++turn) {
      for (const Measurement& m : measure_turn(which, chosen, activity)) {
        data_.measurements.push_back(m);
      }
    }
    ++windows_;
  }

  /// All stages of a window, round and round in short pieces, so that what changes with time
  /// changes for all of them.
  std::vector<Measurement> measure_turn(std::size_t disturbance,
                                        const std::vector<std::size_t>& chosen,
                                        probe::Activity& activity) {
    std::vector<Measurement> turn(chosen.size());
    std::vector<ForestStages::Slice> slices(chosen.size());
    for (int round = 0; round < k_rounds; ++round) {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        slices[i] +=
            stages_.run(chosen[i], options_.slice_s / k_rounds, [&] { activity.sample(); });
        const probe::ActivitySample sample = activity.sample();
        turn[i].activity = round == 0 ? sample : sum(turn[i].activity, sample);
      }
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      turn[i].window = windows_;
      turn[i].disturbance = static_cast<double>(disturbance);
      turn[i].stage = static_cast<double>(chosen[i]);
      turn[i].groups = slices[i].groups;
      turn[i].seconds = slices[i].mean();
      turn[i].error = slices[i].error();
    }
    return turn;
  }

  void save() { write_forest_data(data_, options_.out); }

  void tell(double wanted_s) {
    const double passed_s = data_.collected_s;
    if (Terminal::of_stdout()) {
      fmt::print("\r\x1b[K{:.1f} of {:.1f} minutes, {} windows, last: {}", passed_s / 60,
                 wanted_s / 60, windows_, disturbances_[disturbance_of(windows_ - 1)].name());
    } else if (windows_ % (4 * k_save_every) == 0) {
      fmt::print("{:.1f} of {:.1f} minutes, {} windows\n", passed_s / 60, wanted_s / 60, windows_);
    }
    std::fflush(stdout);
  }

  const CollectOptions& options_;
  base::SteadyClock clock_;
  std::vector<std::string> notes_;
  Cores cores_;
  std::vector<DisturbanceSpec> disturbances_;
  ForestStages stages_;
  ForestData data_;
  int windows_ = 0;
};

}  // namespace

void collect_forest_data(const CollectOptions& options) {
  Collection(options).run();
}

}  // namespace dynpipe::app
