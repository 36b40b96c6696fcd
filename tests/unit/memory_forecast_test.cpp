// What ranks are told about memory before they train.

#include "app/memory_forecast.hpp"

#include <gtest/gtest.h>

namespace dynpipe::app {
namespace {

constexpr std::int64_t k_megabyte = 1'000'000;

/// A rank of `host` that will hold about `peak_mb`.
RankForecast rank(int number, const std::string& host, std::int64_t peak_mb) {
  RankForecast forecast;
  forecast.rank = number;
  forecast.room.host = host;
  forecast.room.program_bytes = 30 * k_megabyte;
  forecast.room.data_bytes = 50 * k_megabyte;
  forecast.room.host_bytes = 10'000 * k_megabyte;
  forecast.room.available_bytes = 6'000 * k_megabyte;
  forecast.planned.scratch = static_cast<std::size_t>((peak_mb - 80) * k_megabyte);
  return forecast;
}

TEST(MemoryForecastTest, CountsWhatIsThereAndWhatIsPlanned) {
  RankForecast forecast = rank(0, "n0", 500);
  EXPECT_EQ(forecast.peak_bytes(), 500 * k_megabyte);
  forecast.backend_bytes = 7 * k_megabyte;
  EXPECT_EQ(forecast.peak_bytes(), 507 * k_megabyte);
  forecast.room.peak_bytes = 900 * k_megabyte;  // while data was read
  EXPECT_EQ(forecast.peak_bytes(), 900 * k_megabyte);
}

TEST(MemoryForecastTest, InitialWeightsMayTakeMoreThanTraining) {
  RankForecast forecast = rank(0, "n0", 80);
  forecast.planned.weights = {100 * k_megabyte, 2};
  forecast.initial_bytes = 200 * k_megabyte;
  EXPECT_EQ(forecast.peak_bytes(), 380 * k_megabyte);
}

TEST(MemoryForecastTest, EnoughIsNotTalkedOf) {
  const MemoryVerdict verdict = judge_memory({rank(0, "n0", 3000), rank(1, "n0", 3000)});
  EXPECT_TRUE(verdict.warnings.empty());
  EXPECT_TRUE(verdict.refusals.empty());
}

TEST(MemoryForecastTest, SumsOfAHostBeyondWhatIsLeftAreAWarning) {
  const MemoryVerdict verdict =
      judge_memory({rank(0, "n0", 4000), rank(1, "n0", 4000), rank(2, "n1", 4000)});
  ASSERT_EQ(verdict.warnings.size(), 1U);
  EXPECT_EQ(verdict.warnings[0],
            "ranks 0 and 1 need about 8000 MB of memory, but host n0 has 6160 MB left");
  EXPECT_TRUE(verdict.refusals.empty());
}

TEST(MemoryForecastTest, SumsFarBeyondAHostAreRefused) {
  const MemoryVerdict verdict = judge_memory({rank(0, "n0", 9000), rank(1, "n0", 9000)});
  ASSERT_EQ(verdict.refusals.size(), 1U);
  EXPECT_EQ(verdict.refusals[0],
            "ranks 0 and 1 need about 18.0 GB of memory, but host n0 has 10.0 GB");
}

TEST(MemoryForecastTest, ControlGroupsOfAHostAreSummedEachAlone) {
  std::vector<RankForecast> ranks{rank(0, "n0", 500), rank(1, "n0", 500), rank(2, "n0", 500)};
  ranks[0].room.limit = ranks[1].room.limit = {950 * k_megabyte, "/a"};
  ranks[2].room.limit = {950 * k_megabyte, "/b"};
  EXPECT_EQ(judge_memory(ranks).warnings.size(), 1U);
  ranks[2].room.limit = {400 * k_megabyte, "/b"};
  const MemoryVerdict verdict = judge_memory(ranks);
  ASSERT_EQ(verdict.refusals.size(), 1U);
  EXPECT_NE(verdict.refusals[0].find("control group /b on host n0"), std::string::npos);
}

TEST(MemoryForecastTest, ARoomSurvivesTheWayToTheOtherRanks) {
  RankRoom room = rank(0, "n0", 500).room;
  EXPECT_EQ(pack(unpack_room(pack(room))), pack(room));
  room.limit = {5, "/a"};
  EXPECT_EQ(unpack_room(pack(room)).limit->folder, "/a");
}

}  // namespace
}  // namespace dynpipe::app
