#include "planner/kappa.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "app/staleness.hpp"
#include "base/errors.hpp"

namespace dynpipe::planner {
namespace {

std::vector<double> cosines_of(double signal, double kappa) {
  std::vector<double> cosines;
  for (int l = 1; l <= 8; ++l) cosines.push_back(signal / (1 + kappa * l));
  return cosines;
}

TEST(KappaTest, IsFoundAgainWhateverTheNoise) {
  for (const double signal : {1.0, 0.3, 0.05}) {
    for (const double kappa : {0.0, 0.02, 0.5, 0.9}) {
      const KappaFit fit = fit_kappa(cosines_of(signal, kappa));
      EXPECT_NEAR(fit.kappa, kappa, 1e-5 * (1 + kappa)) << signal;
      EXPECT_NEAR(fit.signal, signal, 1e-5);
    }
  }
}

TEST(KappaTest, IsNotUpsetByACosineNearZero) {
  std::vector<double> cosines = cosines_of(0.4, 0.3);
  cosines[7] = -1e-6;
  EXPECT_NEAR(fit_kappa(cosines).kappa, 0.3, 0.2);
}

TEST(KappaTest, IsBoundedWhereGradientsOpposeEachOther) {
  const std::vector<double> cosines{0.3, 0.1, -0.05, -0.1, -0.2, -0.2, -0.1, -0.05};
  EXPECT_NEAR(fit_kappa(cosines).kappa, 1, 1e-6);
}

TEST(KappaTest, IsNeverNegative) {
  EXPECT_EQ(fit_kappa(std::vector<double>{0.1, 0.2, 0.3, 0.4}).kappa, 0);
}

TEST(KappaTest, IsZeroWhereNothingIsKnown) {
  EXPECT_EQ(fit_kappa({}).kappa, 0);
  EXPECT_EQ(fit_kappa(std::vector<double>{0.5}).kappa, 0);
  EXPECT_EQ(fit_kappa(std::vector<double>{-0.1, -0.1, -0.1}).kappa, 0);
  EXPECT_EQ(fit_kappa(std::vector<double>(8, 0.0)).kappa, 0);
}

TEST(KappaTest, IsReadFromASummary) {
  app::Staleness staleness{12, cosines_of(0.5, 0.25), 0.25};
  const std::string text =
      R"({"status": "completed", )" + app::staleness_json(staleness).dump().substr(1);
  EXPECT_EQ(app::kappa_of_summary(text, "run.json"), 0.25);
}

void expect_refused(const std::string& text, const std::string& words) {
  try {
    app::kappa_of_summary(text, "run.json");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const base::InputError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("run.json: ", 0), 0u) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

TEST(KappaTest, RefusesSummariesWithoutIt) {
  expect_refused(R"({"status": "completed"})", "kappa: is missing: train with --measure-kappa");
  expect_refused(R"({"kappa": -1})", "kappa: must be at least 0");
  expect_refused(R"({"kappa": "0.1"})", "kappa: must be a number");
  expect_refused("[]", "must be an object");
  expect_refused("{", "not JSON");
}

TEST(KappaTest, ComesFromTheComparisonsOfAllStages) {
  pipeline::LagSample first, second;
  first.group = second.group = 9;
  first.square = 1;
  second.square = 3;
  for (std::size_t i = 0; i < first.products.size(); ++i) {
    const double cosine = 0.5 / (1 + 0.2 * static_cast<double>(i + 1));
    first.squares[i] = 1;
    second.squares[i] = 3;
    first.products[i] = cosine * 4;  // all that they have in common is in the first
  }
  const app::Staleness staleness =
      app::find_staleness({app::pack({first}), app::pack({second}), app::pack({})});
  EXPECT_EQ(staleness.comparisons, 1);
  EXPECT_NEAR(staleness.kappa, 0.2, 1e-5);
  EXPECT_NEAR(staleness.cosines[0], 0.5 / 1.2, 1e-12);
}

}  // namespace
}  // namespace dynpipe::planner
