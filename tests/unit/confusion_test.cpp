// Which classes were taken for which, and how it is told.

#include "app/confusion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dynpipe::app {
namespace {

TEST(ConfusionTest, CountsByLabelAndPrediction) {
  Confusion confusion(3);
  confusion.add(std::vector<std::int32_t>{0, 0, 1}, std::vector<std::int32_t>{0, 2, 1});
  confusion.add(std::vector<std::int32_t>{0}, std::vector<std::int32_t>{2});
  EXPECT_EQ(confusion.samples(0), 3);
  EXPECT_EQ(confusion.correct(0), 1);
  EXPECT_EQ(confusion.at(0, 2), 2);
  EXPECT_EQ(confusion.samples(2), 0);
}

TEST(ConfusionTest, FewClassesAreAWholeTable) {
  Confusion confusion(2);
  confusion.add(std::vector<std::int32_t>{0, 0, 0}, std::vector<std::int32_t>{0, 1, 0});
  EXPECT_EQ(describe(confusion),
            "label  accuracy  predicted as\n"
            "                   0   1\n"
            "    0   66.67 %    2   1\n"
            "    1         -    .   .\n");
}

TEST(ConfusionTest, ManyClassesAreTheirWorst) {
  Confusion confusion(100);
  for (std::int32_t label = 0; label < 100; ++label) {
    confusion.add(std::vector<std::int32_t>{label}, std::vector<std::int32_t>{label});
  }
  confusion.add(std::vector<std::int32_t>{7, 7, 50}, std::vector<std::int32_t>{9, 9, 1});
  const std::string text = describe(confusion);
  EXPECT_NE(text.find("    7   33.33 %        3\n   50   50.00 %        2\n"), std::string::npos);
  EXPECT_NE(text.find("    7             9        2\n   50             1        1\n"),
            std::string::npos);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 30);
}

}  // namespace
}  // namespace dynpipe::app
