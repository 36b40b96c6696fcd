#include "app/trace_command.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "app/text_file.hpp"
#include "nn/layer.hpp"
#include "planner/simulator.hpp"
#include "planner/workload.hpp"
#include "schedule/schedule.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

using schedule::Op;
using testing::expect_contains;

io::EventKind kind_of(Op op) {
  if (op == Op::update) return io::EventKind::update;
  return schedule::makes_activation(op) ? io::EventKind::forward : io::EventKind::backward;
}

/// A run of two stages, of one epoch, as the simulator makes it: steps differ, messages take 20
/// microseconds.
class TraceCommandTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t k_updates = 30;
  static constexpr double k_latency_s = 20e-6;

  TraceCommandTest() {
    run_.model =
        model::parse_model(read_text_file(std::string(DYNPIPE_SOURCE_DIR) + "/models/lenet5.json"),
                           "lenet5.json", nn::layer_types());
    make(plan::Schedule::asynchronous);
  }

  void make(plan::Schedule schedule) {
    run_.plan = plan::equal_flops_plan(run_.model,
                                       {schedule, plan::WeightPolicy::double_buffer, 4, {1, 1}});
    io::Trace& trace = run_.trace;
    trace = {};
    trace.file = "run.h5";
    trace.clock = "real";
    trace.status = "completed";
    trace.batch = 16;
    trace.has_events = true;
    trace.ranks = {{0, "a", 1, 0, 0}, {1, "b", 1, 0, 0}};
    trace.plans = {{0, 0, plan::to_json(run_.plan, run_.model)}};
    const model::Profile profile = planner::profile_by_flops(run_.model, 1e9);
    planner::Cluster cluster =
        planner::uniform_cluster(2, k_latency_s / 2, std::numeric_limits<double>::infinity());
    cluster.jitter = 0.3;
    simulated_ = planner::simulate(run_.plan, schedule::training_streams(run_.plan, {0, k_updates}),
                                   planner::workload_of(profile, run_.plan, trace.batch), cluster,
                                   {7, true});
    for (std::int64_t update = 1; update <= k_updates; ++update) {
      trace.updates.push_back({update, 1, 16,
                               simulated_.updates_s[static_cast<std::size_t>(update - 1)], 1.0, 0.5,
                               0.1});
    }
    for (int rank = 0; rank < 2; ++rank) add_events(rank);
  }

  void add_events(int rank) {
    for (const planner::SimulatedStep& step :
         simulated_.ranks[static_cast<std::size_t>(rank)].steps) {
      const Op op = step.instruction.op;
      if (op == Op::receive || op == Op::update_wait) continue;
      const std::int64_t index = step.instruction.index;
      const std::int64_t update = (op == Op::update ? index : index / 4) + 1;
      const auto add = [&](io::EventKind kind, double start_s, double end_s) {
        run_.trace.events.push_back(
            {rank, rank, static_cast<std::uint8_t>(kind), update, index, start_s, end_s});
      };
      if (step.start_s > step.ready_s) {
        add(schedule::makes_activation(op) ? io::EventKind::wait_activation
                                           : io::EventKind::wait_gradient,
            step.ready_s, step.start_s);
      }
      add(kind_of(op), step.start_s, step.end_s);
    }
    const planner::SimulatedRank& of = simulated_.ranks[static_cast<std::size_t>(rank)];
    io::StageStatsRow row;
    row.update = k_updates;
    row.rank = row.stage = rank;
    row.total_s = simulated_.end_s;
    row.forward_s = of.busy_s / 2;
    row.backward_s = of.busy_s / 2;
    row.wait_activation_s = of.wait_activation_s;
    row.wait_gradient_s = of.wait_gradient_s;
    run_.trace.stage_stats.push_back(row);
  }

  TraceRun run_;
  planner::SimulatedRun simulated_;
};

TEST_F(TraceCommandTest, what_ran_is_what_the_replay_foretells) {
  for (const auto schedule : {plan::Schedule::asynchronous, plan::Schedule::one_f_one_b}) {
    make(schedule);
    const WhatIfResult result = what_if(run_, {});
    EXPECT_EQ(result.updates, k_updates);
    EXPECT_NEAR(result.measured_s, simulated_.end_s / k_updates, 1e-12);
    EXPECT_NEAR(result.replayed_s / result.measured_s, 1, 1e-3);
  }
}

TEST_F(TraceCommandTest, a_stage_undisturbed_is_faster_and_the_other_is_not_changed) {
  const WhatIfResult own = what_if(run_, {});
  const WhatIfResult both = what_if(run_, {"", 1, ""});
  EXPECT_LT(both.predicted_s, own.replayed_s);
  EXPECT_NEAR(both.replayed_s, own.replayed_s, 1e-15);
  expect_contains(both.text, "stage 1 undisturbed");
}

TEST_F(TraceCommandTest, a_stage_that_is_not_there_is_refused) {
  expect_contains(testing::refusal_of([&] {
                    what_if(run_, {"", 2, ""});
                  }),
                  "--undisturbed: is 2, but there are 2 stages");
}

TEST_F(TraceCommandTest, transfer_and_bubble_are_told_apart) {
  for (const StageAccount& of : account_of(run_.trace)) {
    ASSERT_TRUE(of.transfer_s);
    EXPECT_GT(*of.transfer_s, 0);
    EXPECT_LE(*of.transfer_s, of.wait_activation_s + of.wait_gradient_s + 1e-12);
  }
  run_.trace.events.clear();
  run_.trace.has_events = false;
  EXPECT_FALSE(account_of(run_.trace).front().transfer_s);
}

TEST_F(TraceCommandTest, ranks_that_compute_at_once_add_up_to_their_work) {
  const std::vector<double> seconds = seconds_by_computing_ranks(run_.trace);
  ASSERT_EQ(seconds.size(), 3U);
  EXPECT_NEAR(seconds[1] + 2 * seconds[2], simulated_.ranks[0].busy_s + simulated_.ranks[1].busy_s,
              1e-9);
}

TEST_F(TraceCommandTest, the_summary_names_the_slowest_stage) {
  const std::string text = describe_trace(run_, Charset::ascii);
  const int slowest = simulated_.ranks[1].busy_s > simulated_.ranks[0].busy_s ? 1 : 0;
  expect_contains(text, "slowest: stage " + std::to_string(slowest));
  expect_contains(text, "30 updates");
}

TEST_F(TraceCommandTest, a_comparison_with_itself_finds_nothing) {
  const std::string text = compare_traces(run_, run_);
  expect_contains(text, "+0.0 %");
  EXPECT_EQ(text.find("+1"), std::string::npos);
}

TEST_F(TraceCommandTest, csv_quotes_what_has_commas) {
  const testing::TemporaryFolder folder;
  run_.trace.decisions.push_back({});
  run_.trace.decisions.back().reason = "slow, \"very\"";
  write_csv(run_.trace, (folder / "csv").string());
  expect_contains(read_text_file((folder / "csv" / "decisions.csv").string()),
                  R"("slow, ""very""")");
}

}  // namespace
}  // namespace dynpipe::app
