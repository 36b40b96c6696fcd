#include "app/progress_text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "app/recent_ratio.hpp"

namespace dynpipe::app {
namespace {

TEST(BarTest, IsFilledToAnEighthOfACellWithBlocks) {
  EXPECT_EQ(bar(0, 4, Charset::blocks), "    ");
  EXPECT_EQ(bar(1, 4, Charset::blocks), "████");
  EXPECT_EQ(bar(0.5, 4, Charset::blocks), "██  ");
  EXPECT_EQ(bar(0.75, 2, Charset::blocks), "█▌");
  EXPECT_EQ(bar(1.0 / 32, 4, Charset::blocks), "▏   ");
}

TEST(BarTest, IsFilledToWholeCellsInAscii) {
  EXPECT_EQ(bar(0.5, 4, Charset::ascii), "##  ");
  EXPECT_EQ(bar(0.99, 4, Charset::ascii), "####");
}

TEST(BarTest, KeepsItsWidthWhateverTheShare) {
  for (const double share : {-1.0, 0.0, 0.01, 0.33, 0.999, 1.0, 7.0}) {
    for (const Charset charset : {Charset::ascii, Charset::blocks}) {
      EXPECT_EQ(columns_of(bar(share, 13, charset)), 13U) << share;
    }
  }
}

TEST(DurationTest, HasHoursWhereThereAreAny) {
  EXPECT_EQ(duration_text(0.4), "0:00");
  EXPECT_EQ(duration_text(83), "1:23");
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

ProgressState some_state() {
  ProgressState state;
  state.epoch = 2;
  state.epochs = 5;
  state.update = 1234;
  state.total_updates = 4690;
  state.epoch_done = 0.31;
  state.loss = 0.4321;
  state.accuracy = 0.8712;
  state.samples_per_s = 1096;
  state.eta_s = 83;
  return state;
}

TEST(ProgressRowTest, HasEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_row(some_state(), 120, Charset::ascii),
            "epoch 2/5 ############                            "
            "  update 1234/4690  loss 0.4321  acc 87.12 %  1096 samples/s  eta 1:23");
}

TEST(ProgressRowTest, FitsEightyColumnsWithAllFigures) {
  EXPECT_EQ(progress_row(some_state(), 79, Charset::ascii),
            "epoch 2/5 ####            1234/4690  loss 0.4321  acc 87.12 %  1096/s  eta 1:23");
}

TEST(ProgressRowTest, NeverPassesTheWidth) {
  ProgressState large = some_state();
  large.epochs = large.epoch = 1000000;
  large.total_updates = large.update = 123456789;
  large.loss = 1e30;
  large.eta_s = 1e7;
  for (std::size_t width = 1; width < 200; ++width) {
    for (const ProgressState& state : {some_state(), large}) {
      EXPECT_LE(columns_of(progress_row(state, width, Charset::blocks)), width);
    }
  }
}

TEST(ProgressRowTest, SaysThatItEvaluatesInsteadOfATimeLeft) {
  ProgressState state = some_state();
  state.evaluating = true;
  const std::string row = progress_row(state, 100, Charset::ascii);
  EXPECT_NE(row.find("evaluating"), std::string::npos) << row;
  EXPECT_EQ(row.find("eta"), std::string::npos) << row;
}

std::vector<StageLoad> loads_of(const std::vector<double>& busy) {
  std::vector<StageLoad> loads;
  for (const double share : busy) {
    loads.push_back({static_cast<int>(loads.size()), share, 1 - share, true});
  }
  return loads;
}

TEST(StageRowTest, ShowsBusyAndWaitingSharesWhereThereIsRoom) {
  EXPECT_EQ(stage_row(loads_of({0.93, 0.5}), 79, Charset::blocks),
            "stage 0 ███████▌  93 %  wait  7 % | stage 1 ████      50 %  wait 50 %");
}

TEST(StageRowTest, LeavesOutWaitingWhereFourStagesShareEightyColumns) {
  EXPECT_EQ(stage_row(loads_of({1, 0.75, 0.5, 0.25}), 79, Charset::ascii),
            "stage 0 #### 100 %  stage 1 ###   75 %  stage 2 ##    50 %  stage 3 #     25 %");
}

TEST(StageRowTest, ShowsTheBusiestInTheirOrderWhereNotAllFit) {
  EXPECT_EQ(
      stage_row(loads_of({0.9, 0.1, 0.2, 0.8, 0.1, 0.7, 0.1, 1, 0.1, 0.6}), 79, Charset::ascii),
      "0 ####  90 %  3 ###   80 %  5 ###   70 %  7 #### 100 %  busiest 4 of 10");
}

TEST(StageRowTest, NeverPassesTheWidth) {
  for (std::size_t stages = 1; stages <= 40; ++stages) {
    for (std::size_t width = 1; width < 200; ++width) {
      const auto loads = loads_of(std::vector<double>(stages, 0.876));
      EXPECT_LE(columns_of(stage_row(loads, width, Charset::blocks)), width);
    }
  }
}

TEST(StageRowTest, AStageThatIsUnknownHasNoShare) {
  const std::vector<StageLoad> loads(1);
  EXPECT_EQ(stage_row(loads, 79, Charset::ascii), "stage 0            - %");
  EXPECT_EQ(stage_words(loads), "busy - %");
}

TEST(StageWordsTest, NameEveryStageOrTheRangeOfMany) {
  EXPECT_EQ(stage_words(loads_of({0.93, 0.88})), "busy 93 88 %");
  EXPECT_EQ(stage_words(loads_of({0.2, 0.3, 0.4, 0.5, 0.1, 0.9, 0.6, 0.7, 0.8})),
            "busy 10..90 % (most: stage 5)");
}

TEST(EpochLineTest, SaysWhenTheEpochWasCutShort) {
  EvaluationEvent event;
  event.result.epoch = 2;
  event.result.train_s = 1;
  event.result.samples = 100;
  event.update = 1000;
  const RunExtent extent{2, 938, 1000};
  EXPECT_EQ(epoch_line(event, extent).find("cut short"), std::string::npos);
  event.cut_short = true;
  const std::string text = epoch_line(event, extent);
  EXPECT_NE(text.find("\nepoch 2 was cut short by --max-updates: 62 of its 938 updates were made"),
            std::string::npos)
      << text;
}

TEST(RecentRatioTest, IsTheRatioOfWhatWasAdded) {
  RecentRatio ratio(5);
  EXPECT_FALSE(ratio.known());
  EXPECT_EQ(ratio.value(), 0);
  for (int i = 0; i < 10; ++i) ratio.add(30, 0.5);
  EXPECT_NEAR(ratio.value(), 60, 1e-9);
}

TEST(RecentRatioTest, ForgetsWithItsMemory) {
  RecentRatio ratio(5);
  for (int i = 0; i < 1000; ++i) ratio.add(100, 1);
  ratio.add(0, 5);  // a pause as long as the memory
  const double lived = 100 / (1 - std::exp(-0.2));
  EXPECT_NEAR(ratio.value(), lived * std::exp(-1) / (lived / 100 * std::exp(-1) + 5), 1e-6);
  for (int i = 0; i < 100; ++i) ratio.add(7, 1);
  EXPECT_NEAR(ratio.value(), 7, 1e-3);
}

}  // namespace
}  // namespace dynpipe::app
