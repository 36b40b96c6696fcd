#include "emulate/emulated_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/errors.hpp"

namespace dynpipe::emulate {

using planner::SimulatedStep;
using schedule::Instruction;

void DescribedSteps::begin_training(schedule::Segment segment) {
  run_.begin_training(segment);
  next_ = 0;
  on_begin(run_.began_s());
}

void DescribedSteps::begin_evaluation(std::int64_t count) {
  run_.begin_evaluation(count);
  next_ = 0;
  on_begin(run_.began_s());
}

const SimulatedStep* DescribedSteps::described(const Instruction& instruction) const {
  if (next_ >= run_.steps().size()) return nullptr;
  const SimulatedStep& step = run_.steps()[next_];
  return step.instruction == instruction ? &step : nullptr;
}

void DescribedSteps::ready(const Instruction& instruction) {
  if (const SimulatedStep* step = described(instruction)) on_ready(*step);
}

void DescribedSteps::started(const Instruction& instruction) {
  const SimulatedStep* step = described(instruction);
  if (step == nullptr) return;
  on_started(*step);
  if (instruction.op == schedule::Op::update_wait) ++next_;  // it computes nothing
}

void DescribedSteps::done(const Instruction& instruction) {
  const SimulatedStep* step = described(instruction);
  if (step == nullptr) {
    throw std::logic_error(fmt::format("'{}' is not in the described run", to_string(instruction)));
  }
  on_done(*step);
  ++next_;
}

void DescribedSteps::end_segment() {
  if (next_ != run_.steps().size()) {
    throw std::logic_error(fmt::format("'{}' of the described run was not made",
                                       to_string(run_.steps()[next_].instruction)));
  }
  on_end(run_.end_s());
}

void PacedSteps::on_begin(double began_s) {
  world_.barrier();
  began_s_ = clock_.now_s();
  described_began_s_ = began_s;
}

void PacedSteps::on_started(const SimulatedStep& step) {
  hold(step.start_s, [&] { return fmt::format("the start of {}", to_string(step.instruction)); });
}

void PacedSteps::on_done(const SimulatedStep& step) {
  hold(step.end_s, [&] { return fmt::format("the end of {}", to_string(step.instruction)); });
}

void PacedSteps::on_end(double end_s) {
  hold(end_s, [] { return std::string("the end of the segment"); });
}

template <typename What>
void PacedSteps::hold(double described_s, What&& what) {
  const double due_s = described_s - described_began_s_;
  const auto passed_s = [this] { return clock_.now_s() - began_s_; };
  channel_.wait_until([&] { return passed_s() >= due_s; }, what);
  const double late_s = passed_s() - due_s;
  if (late_s > std::max(k_slack_s, k_tolerance * due_s)) {
    throw base::RunError(fmt::format(
        "paced emulation: {} of rank {} came {:.1f} ms after the segment began, {:.1f} ms later "
        "than described: this host is too slow, or too busy, for the description",
        what(), world_.rank(), 1e3 * passed_s(), 1e3 * late_s));
  }
}

}  // namespace dynpipe::emulate
