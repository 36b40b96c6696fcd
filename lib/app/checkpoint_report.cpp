#include "app/checkpoint_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/checkpoint_contents.hpp"
#include "app/run_progress.hpp"
#include "base/counted.hpp"
#include "base/errors.hpp"
#include "io/checkpoint.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;
using nlohmann::json;
namespace fs = std::filesystem;

void require_folder(const fs::path& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) {
    throw InputError(place.string(), "", "is no folder of checkpoints: there is none");
  }
}

/// A checkpoint, or the newest in a folder of them.
fs::path one_at(const fs::path& place) {
  require_folder(place);
  return io::newest_checkpoint(place);
}

/// "3 min" since a time as a checkpoint states it.
std::string age_text(const std::string& created, std::time_t now) {
  std::tm utc{};
  if (strptime(created.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc) == nullptr) return "?";
  const double age_s = std::max(0.0, std::difftime(now, timegm(&utc)));
  constexpr double k_min = 60, k_h = 3600, k_d = 86400;
  if (age_s < 2 * k_min) return fmt::format("{:.0f} s", age_s);
  if (age_s < 2 * k_h) return fmt::format("{:.0f} min", age_s / k_min);
  if (age_s < 2 * k_d) return fmt::format("{:.0f} h", age_s / k_h);
  return fmt::format("{:.0f} d", age_s / k_d);
}

/// Without the folder's path, which stands above.
std::string within(const std::string& problem, const fs::path& folder) {
  const std::string prefix = folder.string() + "/";
  return problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem;
}

/// Training loss: of the epoch under way, else of the last one.
std::string loss_text(const RunProgress& progress) {
  if (progress.totals.samples > 0) return fmt::format("{:.4f}", progress.totals.loss());
  if (progress.epochs.empty()) return "-";
  return fmt::format("{:.4f}", progress.epochs.back().train_loss);
}

std::string accuracy_text(const RunProgress& progress) {
  if (progress.epochs.empty()) return "-";
  return fmt::format("{:.2f} %", 100 * progress.epochs.back().test_accuracy);
}

std::string row_of(const fs::path& path, bool best, std::time_t now) {
  const std::string name = path.filename().string();
  const std::vector<std::string> problems = problems_of(path, false);
  if (!problems.empty()) {
    return fmt::format("{:<14}  damaged: {}\n", name, within(problems.front(), path));
  }
  const io::Checkpoint checkpoint(path);
  const io::CheckpointFacts facts = checkpoint.facts();
  const RunProgress progress = parse_run_progress(facts.progress, path.string());
  return fmt::format("{:<14}{:>8}{:>9}{:>9}{:>11}{:>11}{:>9}  complete{}\n", name, facts.update,
                     facts.epoch, loss_text(progress), accuracy_text(progress),
                     size_text(checkpoint.bytes()), age_text(facts.created, now),
                     best ? ", best" : "");
}

/// Checkpoints that a killed run has left, or that are being written.
std::vector<std::string> partial_ones(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".partial" && name.string().starts_with("step-")) {
      names.push_back(name.string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A file of a checkpoint, and the layers in it.
struct Shard {
  std::string file;
  std::vector<std::string> layers;
};

std::vector<Shard> shards_of(const io::CheckpointFacts& facts) {
  std::vector<Shard> shards;
  for (const io::CheckpointLayer& layer : facts.layers) {
    if (shards.empty() || shards.back().file != layer.file) shards.push_back({layer.file, {}});
    shards.back().layers.push_back(layer.name);
  }
  return shards;
}

/// A member of a JSON object as text; "?" where there is none.
std::string member(const json& object, const std::string& name) {
  if (!object.is_object() || !object.contains(name)) return "?";
  const json& value = object[name];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string describe_plan(const json& plan) {
  const std::string schedule = member(plan, "schedule");
  return fmt::format("{}{}, {} microbatches an update", schedule,
                     schedule == "async" ? fmt::format(" ({})", member(plan, "weights")) : "",
                     member(plan, "microbatches"));
}

std::string ranks_of_stage(const json& plan, std::size_t stage) {
  if (!plan.is_object() || !plan.contains("stages") || stage >= plan["stages"].size()) return "?";
  std::string ranks = member(plan["stages"][stage], "ranks");
  std::erase_if(ranks, [](char c) { return c == '[' || c == ']'; });
  return ranks;
}

std::string describe_shards(const io::Checkpoint& checkpoint, const io::CheckpointFacts& facts,
                            const json& plan) {
  std::string text = fmt::format("{:>5}  {:<12}{:>10}  {:<8}  {:<14}  layers\n", "stage", "file",
                                 "size", "ranks", "versions");
  std::size_t stage = 0;
  for (const Shard& shard : shards_of(facts)) {
    checkpoint.check(shard.file);
    std::vector<std::string> versions = checkpoint.open(shard.file).children("/versions");
    versions.push_back(fmt::format("{}", facts.update));
    text += fmt::format("{:>5}  {:<12}{:>10}  {:<8}  {:<14}  {} .. {}\n", stage, shard.file,
                        size_text(checkpoint.digests().at(shard.file).bytes),
                        ranks_of_stage(plan, stage), fmt::format("{}", fmt::join(versions, " ")),
                        shard.layers.front(), shard.layers.back());
    ++stage;
  }
  return text;
}

std::string describe_tensors(const io::Checkpoint& checkpoint, const io::CheckpointFacts& facts) {
  std::string text = fmt::format("{:<44}  {}\n", "tensor", "shape");
  std::set<std::string> states;
  for (const Shard& shard : shards_of(facts)) {
    const io::File file = checkpoint.open(shard.file);
    for (const std::string& state : file.children("/optimizer")) states.insert(state);
    for (const std::string& layer : shard.layers) {
      for (const std::string& name : file.children("/model/" + layer)) {
        const ShardTensor tensor = describe_tensor(file.dataset(io::parameter_path(layer, name)));
        text += fmt::format("{:<44}  {}\n", layer + "." + name, tensor.shape.to_string());
      }
    }
  }
  return text + fmt::format("\noptimizer {}, {} steps; its state of every parameter: {}\n",
                            facts.optimizer, facts.optimizer_steps,
                            states.empty() ? "none" : fmt::format("{}", fmt::join(states, ", ")));
}

std::string describe_epochs(const RunProgress& progress) {
  if (progress.epochs.empty()) return "";
  std::string text = fmt::format("\n{:>5}{:>12}{:>11}{:>11}{:>11}\n", "epoch", "train loss",
                                 "accuracy", "test loss", "accuracy");
  for (const EpochResult& e : progress.epochs) {
    text += fmt::format("{:>5}{:>12.4f}{:>9.2f} %{:>11.4f}{:>9.2f} %\n", e.epoch, e.train_loss,
                        100 * e.train_accuracy, e.test_loss, 100 * e.test_accuracy);
  }
  return text;
}

std::string describe_config(const json& config) {
  if (!config.is_object() || !config.contains("options")) return "";
  std::string text = "\noptions\n";
  for (const auto& [name, value] : config["options"].items()) {
    const std::string words = value.is_string() ? value.get<std::string>() : value.dump();
    if (!words.empty()) text += fmt::format("  --{:<22} {}\n", name, words);
  }
  return text;
}

}  // namespace

std::string describe_checkpoints(const std::string& folder, std::time_t now) {
  require_folder(folder);
  std::error_code none;
  const fs::path best = fs::read_symlink(fs::path(folder) / "best", none);
  std::string text =
      fmt::format("{}\n\n{:<14}{:>8}{:>9}{:>9}{:>11}{:>11}{:>9}\n", folder, "checkpoint", "update",
                  "epochs", "loss", "test acc", "size", "age");
  std::size_t count = 0;
  for (const io::CheckpointName& found : io::list_checkpoints(folder)) {
    text += row_of(found.path, found.path.filename() == best, now);
    ++count;
  }
  for (const std::string& name : partial_ones(folder)) {
    text += fmt::format("{:<14}  never completed, or being written\n", name);
    ++count;
  }
  if (count == 0) return folder + ": no checkpoints\n";
  return text +
         "\nOf files other than index.h5 only the sizes were compared; dynpipe checkpoint "
         "verify reads all.\n";
}

std::string describe_checkpoint(const CheckpointReportOptions& options) {
  const fs::path path = one_at(options.place);
  const io::Checkpoint checkpoint(path);
  const io::CheckpointFacts facts = checkpoint.facts();
  if (options.part == "plan") return facts.plan + "\n";
  if (options.part == "config") return facts.config + "\n";
  if (options.part == "progress") return facts.progress + "\n";
  const std::string file = (path / io::k_index_file).string();
  const json plan = model::parse_document(facts.plan, file + ": /plan");
  return fmt::format("{}: {} ({}) after {} updates, {} whole epoch{}\n", path.string(), facts.model,
                     facts.dtype, facts.update, facts.epoch, facts.epoch == 1 ? "" : "s") +
         fmt::format("written {} by {}: {} in {} files\n\n", facts.created, facts.program,
                     size_text(checkpoint.bytes()), checkpoint.digests().size()) +
         describe_plan(plan) + "\n\n" + describe_shards(checkpoint, facts, plan) + "\n" +
         describe_tensors(checkpoint, facts) +
         describe_epochs(parse_run_progress(facts.progress, file)) +
         describe_config(model::parse_document(facts.config, file + ": /config"));
}

Verification verify_checkpoints(const std::string& place) {
  require_folder(place);
  std::vector<fs::path> paths;
  for (const io::CheckpointName& found : io::list_checkpoints(place)) paths.push_back(found.path);
  if (paths.empty()) paths.emplace_back(place);
  Verification verification;
  std::vector<std::string> damaged;
  for (const fs::path& path : paths) {
    const std::vector<std::string> problems = problems_of(path, true);
    for (const std::string& problem : problems) verification.text += problem + "\n";
    if (!problems.empty()) {
      damaged.push_back(path.filename().string());
      continue;
    }
    const io::Checkpoint checkpoint(path);
    verification.text += fmt::format("{}: whole: {} in {} files\n", path.string(),
                                     size_text(checkpoint.bytes()), checkpoint.digests().size());
  }
  if (!damaged.empty()) {
    verification.problem =
        fmt::format("{} of {} damaged: {}", damaged.size(),
                    base::counted(static_cast<std::int64_t>(paths.size()), "checkpoint"),
                    fmt::join(damaged, ", "));
  }
  return verification;
}

}  // namespace dynpipe::app
