#include "app/checkpointing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace fs = std::filesystem;

static_assert(std::is_trivially_copyable_v<ShardReceipt>, "it travels as bytes");

template <std::size_t N>
void put(const std::string& text, std::array<char, N>& into) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(into.data(), text.data(), length);
  into.at(length) = '\0';
}

/// The tensors of a snapshot, by their paths in a checkpoint.
std::vector<io::CheckpointTensor> tensors_of(const pipeline::WeightSnapshot& snapshot,
                                             const pipeline::WeightStore& store,
                                             const std::vector<std::string>& states) {
  std::vector<io::CheckpointTensor> tensors;
  const auto& parameters = store.parameters().entries();
  for (std::int64_t v = snapshot.newest; v >= snapshot.oldest; --v) {
    const auto& views = snapshot.versions[static_cast<std::size_t>(v - snapshot.oldest)].views;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& [layer, name] = std::tie(parameters[i].layer, parameters[i].tensor);
      tensors.push_back({v == snapshot.newest ? io::parameter_path(layer, name)
                                              : io::version_path(v, layer, name),
                         views[i]});
    }
  }
  for (std::size_t s = 0; s < states.size(); ++s) {
    const auto& views = snapshot.states[s].views;
    for (std::size_t i = 0; i < views.size(); ++i) {
      tensors.push_back(
          {io::optimizer_path(states[s], parameters[i].layer, parameters[i].tensor), views[i]});
    }
  }
  const auto& statistics = store.statistics().entries();
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    tensors.push_back({io::parameter_path(statistics[i].layer, statistics[i].tensor),
                       snapshot.statistics.views[i]});
  }
  return tensors;
}

/// Lets `best` in a folder be this checkpoint.
void point_best_at(const fs::path& checkpoint) {
  const fs::path link = checkpoint.parent_path() / "best";
  fs::path fresh = link;
  fresh += ".new";
  std::error_code ignored;
  fs::remove(fresh, ignored);
  fs::create_directory_symlink(checkpoint.filename(), fresh);
  fs::rename(fresh, link);
}

/// Removes all but the newest `keep` and the best.
void prune(const fs::path& folder, std::int64_t keep) {
  if (keep == 0) return;
  std::error_code none;
  const fs::path best = fs::read_symlink(folder / "best", none);
  const auto found = io::list_checkpoints(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < found.size(); ++i) {
    if (found[i].path.filename() != best) io::remove_checkpoint(found[i].path);
  }
}

}  // namespace

Checkpointing::Checkpointing(Setup setup, pipeline::Worker& worker, device::Device& device)
    : setup_(std::move(setup)), worker_(worker) {
  const int rank = setup_.channel.rank();
  const int stage = setup_.plan.stage_of(rank);
  if (setup_.plan.stages[static_cast<std::size_t>(stage)].ranks.front() == rank) {
    own_stage_ = stage;
    copy_ = worker.weights().make_snapshot(device);
  }
  saved_update_ = setup_.first_update;
  setup_.channel.add_helper(this, [this] { poll(); });
}

Checkpointing::~Checkpointing() {
  setup_.channel.remove_helper(this);
}

bool Checkpointing::due_in_segment(std::int64_t update) const {
  const auto& every = setup_.options.every;
  return every && update % *every == 0 && update % setup_.groups_per_epoch != 0;
}

bool Checkpointing::due_after_evaluation(std::int64_t update) const {
  const auto& every = setup_.options.every;
  return !every || update % *every == 0;
}

void Checkpointing::on_update(std::int64_t group) {
  if (due_in_segment(group + 1)) save(group + 1);
}

void Checkpointing::on_group(std::int64_t group, const std::function<std::string()>& progress) {
  if (due_in_segment(group + 1)) pending(group + 1).progress = progress();
}

void Checkpointing::take(std::int64_t update, bool best, const std::string& progress) {
  if (update <= saved_update_) return;
  save(update);
  if (!leads()) return;
  pending(update).progress = progress;
  pending(update).best = best;
}

void Checkpointing::save(std::int64_t update) {
  saved_update_ = update;
  if (leads()) pending(update);
  if (!writes()) return;
  const double began_s = setup_.clock.now_s();
  setup_.channel.wait_until([this] { return !writing_ && !departure_; },
                            [&] {
                              return fmt::format(
                                  "its part of the checkpoint before that of "
                                  "update {} to be written",
                                  update);
                            });
  worker_.take_snapshot(copy_);
  receipt_ = {};
  receipt_.pause_s = setup_.clock.now_s() - began_s;
  writing_ = true;
  written_ = false;
  thread_.submit([this, update] { write_copy(update); });
}

// On the thread.
void Checkpointing::write_copy(std::int64_t update) {
  try {
    const fs::path folder = io::begin_checkpoint(setup_.options.folder, update);
    const io::FileDigest written =
        io::write_shard(folder / io::shard_name(own_stage_),
                        tensors_of(copy_, worker_.weights(), setup_.optimizer_states));
    put(written.digest, receipt_.digest);
    receipt_.bytes = written.bytes;
  } catch (const std::exception& failure) {
    put(failure.what(), receipt_.problem);
  }
  written_ = true;
}

void Checkpointing::hand_in() {
  writing_ = false;
  const std::int64_t update = copy_.newest;
  if (!leads()) {
    departure_ = setup_.channel.send({comm::Payload::receipt, update, setup_.channel.rank(), 0},
                                     std::as_bytes(std::span(&receipt_, 1)), {});
    return;
  }
  for (Pending::Part& part : pending(update).parts) {
    if (part.rank != 0) continue;
    part.receipt = receipt_;
    part.here = true;
  }
}

Checkpointing::Pending& Checkpointing::pending(std::int64_t update) {
  for (Pending& known : pending_) {
    if (known.update == update) return known;
  }
  Pending& fresh = pending_.emplace_back();
  fresh.update = update;
  fresh.began_s = setup_.clock.now_s();
  for (int s = 0; s < setup_.plan.size(); ++s) {
    const int rank = setup_.plan.stages[static_cast<std::size_t>(s)].ranks.front();
    fresh.parts.push_back({s, rank, {}, 0, false});
  }
  for (Pending::Part& part : fresh.parts) {  // they stay where they are from now on
    if (part.rank == 0) continue;
    part.ticket = setup_.channel.receive({comm::Payload::receipt, update, part.rank, 0},
                                         std::as_writable_bytes(std::span(&part.receipt, 1)), {});
  }
  return fresh;
}

void Checkpointing::poll() {
  if (writing_ && written_) hand_in();
  if (departure_ && setup_.channel.test(*departure_)) {
    setup_.channel.retire(*departure_);
    departure_.reset();
  }
  // In order: one after another is completed.
  if (!pending_.empty()) look_at(pending_.front());
  if (!completions_.empty() && completions_.front().done) note_completion();
}

void Checkpointing::look_at(Pending& pending) {
  for (Pending::Part& part : pending.parts) {
    if (part.here || part.rank == 0) continue;
    if (!setup_.channel.test(part.ticket)) continue;
    setup_.channel.retire(part.ticket);
    part.here = true;
  }
  const bool all_here = std::all_of(pending.parts.begin(), pending.parts.end(),
                                    [](const Pending::Part& part) { return part.here; });
  if (!all_here || !pending.progress) return;
  complete(pending);
  pending_.pop_front();
}

void Checkpointing::complete(Pending& pending) {
  Completion& completion = completions_.emplace_back();
  completion.event.update = pending.update;
  completion.event.best = pending.best;
  io::CheckpointFacts facts = setup_.facts(pending.update);
  facts.progress = *pending.progress;
  io::FileDigests shards;
  std::string problem;
  for (const Pending::Part& part : pending.parts) {
    const std::string file = io::shard_name(part.stage);
    shards[file] = {part.receipt.digest.data(), part.receipt.bytes};
    completion.event.pause_s = std::max(completion.event.pause_s, part.receipt.pause_s);
    if (problem.empty() && part.receipt.problem[0] != '\0') {
      problem = fmt::format("rank {}: {}", part.rank, part.receipt.problem.data());
    }
    for (const model::Layer& layer :
         plan::layers_of(setup_.model, setup_.plan.stages[static_cast<std::size_t>(part.stage)])) {
      facts.layers.push_back({layer.spec.name, file});
    }
  }
  // The thread takes part in nothing of this but the completion, which stays where it is.
  thread_.submit([this, &completion, problem, began_s = pending.began_s, facts = std::move(facts),
                  shards = std::move(shards)] {
    completion.problem = problem;
    const fs::path folder = io::partial_checkpoint(setup_.options.folder, facts.update);
    const fs::path path = fs::path(setup_.options.folder) / io::checkpoint_name(facts.update);
    completion.event.path = path.string();
    try {
      if (problem.empty()) {
        completion.event.bytes = io::complete_checkpoint(folder, facts, shards);
      }
    } catch (const std::exception& failure) {
      completion.problem = failure.what();
    }
    try {
      if (completion.problem.empty()) {
        if (completion.event.best && setup_.options.keep_best) point_best_at(path);
        prune(setup_.options.folder, setup_.options.keep);
      }
    } catch (const std::exception& failure) {
      completion.remark = failure.what();
    }
    std::error_code ignored;
    if (!completion.problem.empty()) fs::remove_all(folder, ignored);
    completion.event.write_s = setup_.clock.now_s() - began_s;
    completion.done = true;
  });
}

void Checkpointing::note_completion() {
  const CheckpointEvent event = completions_.front().event;
  const std::string problem = completions_.front().problem;
  const std::string remark = completions_.front().remark;
  completions_.pop_front();
  if (!remark.empty()) setup_.warn(remark);
  if (!problem.empty()) return give_up(event.update, problem);
  failing_ = false;
  newest_ = event;
  setup_.on_complete(event);
}

void Checkpointing::give_up(std::int64_t update, const std::string& problem) {
  if (setup_.options.required) {
    throw base::RunError(
        fmt::format("the checkpoint of update {} could not be written: {}", update, problem));
  }
  if (failing_) return;
  failing_ = true;
  const auto found = io::list_checkpoints(setup_.options.folder);
  setup_.warn(fmt::format(
      "the checkpoint of update {} could not be written: {}; training goes on, {}", update, problem,
      found.empty() ? "and there is no other"
                    : fmt::format("the newest is {}", found.back().path.string())));
}

bool Checkpointing::idle() const {
  return !writing_ && !departure_ && pending_.empty() && completions_.empty();
}

void Checkpointing::finish() {
  setup_.channel.wait_until(
      [this] {
        poll();
        return idle();
      },
      [this] {
        for (const Pending& pending : pending_) {
          for (const Pending::Part& part : pending.parts) {
            if (part.here) continue;
            return fmt::format("rank {} to write stage {} of the checkpoint of update {}",
                               part.rank, part.stage, pending.update);
          }
        }
        return std::string("its last checkpoint to be written");
      });
}

}  // namespace dynpipe::app
