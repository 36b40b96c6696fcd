#include "io/trace_file.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "io/trace.hpp"
#include "support/files.hpp"

namespace dynpipe::io {
namespace {

namespace fs = std::filesystem;
using testing::expect_contains;
using testing::refusal_of;
using testing::write_bytes;

class TraceFileTest : public ::testing::Test {
  testing::TemporaryFolder folder_;

 protected:
  fs::path file_ = folder_ / "run.h5";

  static TraceHeader header(bool events = true) {
    return {R"({"batch": 8})",
            R"({"name": "net"})",
            {{"clock", "real"}, {"status", "running"}},
            {{"batch", 8}},
            {{"conv1", "conv", 100, 10, 5}, {"größe", "linear", 1, 2, 3}},
            {{0, "hosta", 1, 0, 0}, {1, "hostb", 2, 0.25, 1e-5}},
            events};
  }

  static UpdateRow update(std::int64_t number) {
    return {number, 1, 8, 0.5 * static_cast<double>(number), 2.0, 0.5, 0.1};
  }

  /// Two ranks report of an update, and each has an event of it.
  static void add_update(TraceFile& trace, std::int64_t number) {
    trace.add(update(number));
    for (const std::int32_t rank : {1, 0}) {
      StageStatsRow stats;
      stats.update = number;
      stats.rank = rank;
      trace.add(stats);
      trace.add(EventRow{rank, rank, 2, number, 4 * number, 1.0, 2.0});
    }
  }

  std::vector<std::string> names_in_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(file_.parent_path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
};

std::vector<std::int64_t> updates_of(const Trace& trace) {
  std::vector<std::int64_t> updates;
  for (const UpdateRow& row : trace.updates) updates.push_back(row.update);
  return updates;
}

TEST_F(TraceFileTest, reads_back_what_was_committed) {
  {
    TraceFile trace = TraceFile::create(file_, header());
    trace.add(StartRow{0, 0, 1.5e9});
    trace.add(PlanRow{0, 0, R"({"stages": "é"})"});
    add_update(trace, 1);
    EvaluationRow evaluation;
    evaluation.update = 1;
    evaluation.test_accuracy = 0.75;
    evaluation.best = 1;
    trace.add(evaluation);
    trace.add(DecisionRow{1, 0.5, "move", "slow", 0, 1, 0.2,
                          std::numeric_limits<double>::quiet_NaN(), 1, 2, 3});
    const std::vector<double> cosines = {0.5, 0.25};
    trace.set_kappa(0.125, cosines, {{10, 0, 1, 1.0, 2.0, 3.0}});
    trace.set_meta("status", "completed");
    trace.commit();
    add_update(trace, 2);
    trace.commit();
    add_update(trace, 3);
    trace.commit();
  }
  const Trace trace = read_trace(file_);
  EXPECT_EQ(trace.config, R"({"batch": 8})");
  EXPECT_EQ(trace.status, "completed");
  ASSERT_EQ(trace.layers.size(), 2U);
  EXPECT_EQ(trace.layers[1].name, "größe");
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.ranks[1].clock_offset_s, 0.25);
  ASSERT_EQ(trace.plans.size(), 1U);
  EXPECT_EQ(trace.plans[0].plan, R"({"stages": "é"})");
  EXPECT_EQ(updates_of(trace), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(trace.updates[2].time_s, 1.5);
  ASSERT_EQ(trace.stage_stats.size(), 6U);
  EXPECT_EQ(trace.stage_stats[4].rank, 1);
  ASSERT_EQ(trace.events.size(), 6U);
  EXPECT_EQ(trace.events[5].index, 12);
  ASSERT_EQ(trace.evaluations.size(), 1U);
  EXPECT_EQ(trace.evaluations[0].test_accuracy, 0.75);
  ASSERT_EQ(trace.decisions.size(), 1U);
  EXPECT_EQ(trace.decisions[0].reason, "slow");
  EXPECT_EQ(kappa_of_trace(file_), 0.125);
  EXPECT_EQ(names_in_folder(), std::vector<std::string>{"run.h5"}) << "nothing is left beside it";
}

TEST_F(TraceFileTest, what_was_not_committed_is_not_there) {
  {
    TraceFile trace = TraceFile::create(file_, header());
    add_update(trace, 1);
    trace.commit();
    add_update(trace, 2);
  }
  EXPECT_EQ(updates_of(read_trace(file_)), std::vector<std::int64_t>{1});
}

TEST_F(TraceFileTest, without_events_there_is_no_table_of_them) {
  {
    TraceFile trace = TraceFile::create(file_, header(false));
    add_update(trace, 1);
    trace.commit();
  }
  const Trace found = read_trace(file_);
  EXPECT_FALSE(found.has_events);
  EXPECT_TRUE(found.events.empty());
}

TEST_F(TraceFileTest, goes_on_with_a_trace_and_cuts_what_came_after) {
  {
    TraceFile trace = TraceFile::create(file_, header());
    for (std::int64_t number = 1; number <= 1000; ++number) add_update(trace, number);
    trace.commit();
  }
  {
    TraceFile trace = TraceFile::append(file_, 700, header());
    EXPECT_EQ(trace.last_time_s(), 350);
    EXPECT_TRUE(trace.has_events());
    for (std::int64_t number = 701; number <= 702; ++number) {
      add_update(trace, number);
      trace.commit();
    }
  }
  const Trace trace = read_trace(file_);
  ASSERT_EQ(trace.updates.size(), 702U);
  EXPECT_EQ(trace.updates[701].update, 702);
  EXPECT_EQ(trace.stage_stats.size(), 1404U);
  EXPECT_EQ(trace.events.size(), 1404U);
  EXPECT_EQ(names_in_folder(), std::vector<std::string>{"run.h5"});
}

TEST_F(TraceFileTest, goes_on_with_nothing_but_a_trace) {
  EXPECT_THROW(TraceFile::append(file_, 0, header()), base::InputError);
  write_bytes(file_, std::vector<std::uint8_t>(100, 1));
  expect_contains(refusal_of([&] { TraceFile::append(file_, 0, header()); }),
                  "is not an HDF5 file");
  File::create(file_).close();
  const auto before = testing::bytes_of(file_);
  expect_contains(refusal_of([&] { TraceFile::append(file_, 0, header()); }),
                  "is not a trace of dynpipe");
  EXPECT_EQ(testing::bytes_of(file_), before);
  File other = File::create(file_);
  other.set_attribute("/", "format", std::string(k_trace_format));
  other.set_attribute("/", "format_version", std::int64_t{99});
  other.close();
  expect_contains(refusal_of([&] { read_trace(file_); }), "format_version: is 99");
}

TEST_F(TraceFileTest, names_the_column_that_is_missing) {
  TraceFile::create(file_, header()).commit();
  {
    File file = File::open_shared(file_);
    Table::create(file, "/other", {column("update", &UpdateRow::update)}, 4);
  }
  const File file = File::open(file_);
  expect_contains(refusal_of([&] { Table::open(file, "/other", columns_of<UpdateRow>()); }),
                  "/other: has no column epoch");
  expect_contains(refusal_of([&] {
                    Table::open(file, "/other", {{"update", Element::text, 0}});
                  }),
                  "column update holds no text");
}

/// A process that does nothing but commit, killed at a random moment: most kills come within a
/// commit.
TEST_F(TraceFileTest, a_kill_at_any_moment_leaves_all_but_what_was_not_committed) {
  constexpr int k_kills = 150;
  auto* const committed = static_cast<volatile std::int64_t*>(mmap(
      nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(committed, MAP_FAILED);
  std::mt19937 random(1);
  for (int kill_number = 0; kill_number < k_kills; ++kill_number) {
    *committed = 0;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TraceFile trace = TraceFile::create(file_, header());
      for (std::int64_t number = 1;; ++number) {
        for (std::int64_t row = 0; row < 40; ++row) add_update(trace, 40 * (number - 1) + row + 1);
        trace.commit();
        *committed = number;
      }
    }
    while (*committed == 0) usleep(200);
    usleep(static_cast<useconds_t>(random() % 12000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    const std::int64_t least = *committed;
    const Trace trace = read_trace(file_);
    const auto found = static_cast<std::int64_t>(trace.updates.size());
    ASSERT_TRUE(found == 40 * least || found == 40 * (least + 1)) << found << " after " << least;
    ASSERT_EQ(trace.updates.back().update, found);
    ASSERT_EQ(trace.events.size(), 2 * trace.updates.size());
    ASSERT_EQ(trace.events.back().update, found);
  }
  munmap(const_cast<std::int64_t*>(committed), sizeof(std::int64_t));
}

}  // namespace
}  // namespace dynpipe::io
