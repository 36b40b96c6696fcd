#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <numeric>

#include "app/forest_commands.hpp"
#include "app/forest_examples.hpp"
#include "app/text_file.hpp"
#include "base/errors.hpp"
#include "interference/forest_training.hpp"

namespace dynpipe::app {
namespace {

using interference::Accuracy;
using interference::Example;
using interference::Forest;
using interference::ForestKind;
using interference::HeldOut;

/// What forests of one kind said of mixes that they had not seen.
struct Trial {
  interference::TrainingSettings settings;
  std::vector<HeldOut> held_out;
  Accuracy accuracy;  ///< disturbed, candidate of another mix than what runs
};

bool is_disturbed(const Example& example) {
  return example.cause != 0;
}

/// As the headline counts: something disturbs, and the candidate is of another mix.
bool counts(const Example& example) {
  return is_disturbed(example) && example.mix != example.mix_now;
}

std::vector<Trial> try_kinds(const ForestExamples& data, const std::string& kind,
                             std::uint64_t seed) {
  if (data.mixes.size() < 2) {
    throw base::InputError("", "--data", "has one mix of layers: there is none to hold out");
  }
  std::vector<Trial> trials;
  for (const ForestKind each : {ForestKind::random, ForestKind::boosted}) {
    if (kind != "auto" && kind != name_of(each)) continue;
    Trial trial{interference::default_settings(each), {}, {}};
    trial.settings.seed = seed;
    trial.held_out = interference::hold_out_mixes(
        data.examples, static_cast<int>(data.mixes.size()), trial.settings);
    trial.accuracy = interference::accuracy_of(trial.held_out, data.examples, counts);
    trials.push_back(std::move(trial));
  }
  std::stable_sort(trials.begin(), trials.end(),
                   [](const Trial& a, const Trial& b) { return a.accuracy.mae < b.accuracy.mae; });
  return trials;
}

double gain(const Accuracy& accuracy) {
  return accuracy.measured_mae > 0 ? 1 - accuracy.mae / accuracy.measured_mae : 0;
}

std::string table_row(const std::string& what, const Accuracy& accuracy) {
  return fmt::format("{:<52} {:>7} {:>8.3f} {:>9.3f} {:>7.1f} % {:>7.1f} % {:>6.0f} %\n", what,
                     accuracy.rows, accuracy.mae, accuracy.measured_mae, 100 * accuracy.relative,
                     100 * accuracy.measured_relative, 100 * gain(accuracy));
}

std::string table_head(const std::string& what) {
  return fmt::format("{:<52} {:>7} {:>8} {:>9} {:>9} {:>9} {:>8}\n", what, "rows", "MAE",
                     "measured", "relative", "measured", "lower by");
}

std::string tables(const ForestExamples& data, const std::vector<HeldOut>& held_out) {
  const auto accuracy = [&](const auto& which) {
    return interference::accuracy_of(held_out, data.examples, which);
  };
  std::string text = table_head("candidate of another mix, disturbed");
  text += table_row("all", accuracy(counts));
  for (std::size_t mix = 0; mix < data.mixes.size(); ++mix) {
    text += table_row("candidate: " + data.mixes[mix], accuracy([&](const Example& e) {
                        return counts(e) && e.mix == static_cast<int>(mix);
                      }));
  }
  for (std::size_t cause = 1; cause < data.causes.size(); ++cause) {
    const Accuracy of_cause =
        accuracy([&](const Example& e) { return counts(e) && e.cause == static_cast<int>(cause); });
    if (of_cause.rows > 0) text += table_row(data.causes[cause], of_cause);
  }
  text += table_head("others");
  text +=
      table_row("undisturbed, candidate of another mix",
                accuracy([](const Example& e) { return !is_disturbed(e) && e.mix != e.mix_now; }));
  text +=
      table_row("disturbed, candidate of the same mix",
                accuracy([](const Example& e) { return is_disturbed(e) && e.mix == e.mix_now; }));
  return text;
}

std::string noise_text(const ForestExamples& data) {
  return fmt::format(
      "A slowdown measured twice differs by {:.1f} % (label noise), undisturbed by {:.1f} %.\n"
      "MAE: mean |predicted - true slowdown|; \"measured\": the same of the slowdown that was\n"
      "measured on the rank, taken for that of the candidate.\n",
      100 * data.label_noise, 100 * data.quiet_noise);
}

std::string importance_table(const Forest& forest) {
  std::vector<std::size_t> order(interference::k_features);
  std::iota(order.begin(), order.end(), 0);
  const auto& importance = forest.facts().importance;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return importance[a] > importance[b]; });
  std::string text;
  for (const std::size_t f : order) {
    const auto& info = interference::feature_table()[f];
    text += fmt::format("| `{}` | {} | {} | {:.4f} |\n", info.name, info.unit, info.meaning,
                        importance[f]);
  }
  return text;
}

std::string card(const Forest& forest, const ForestExamples& data, const std::vector<Trial>& trials,
                 const ForestTrainOptions& options) {
  const interference::ForestFacts& facts = forest.facts();
  const std::string name = std::filesystem::path(options.out).filename().string();
  std::string text = fmt::format(
      "# Forest `{}`\n\n"
      "Predicts how much longer a stage takes on a rank that something disturbs, from what was\n"
      "measured on the rank and from the stage (`lib/interference`). Written by\n"
      "`dynpipe forest train`, from `{}`, which `dynpipe forest collect` measured on\n"
      "{}: real disturbances beside real layers, nothing emulated.\n\n"
      "| fact | |\n|---|---|\n"
      "| kind | {}: {} rounds of {} trees |\n| examples | {} |\n| layer mixes | {} |\n"
      "| format | version {}, features version {} |\n"
      "| label noise (a slowdown measured twice) | {:.1f} %, undisturbed {:.1f} % |\n\n"
      "## Error on layer mixes that were held out\n\n"
      "Every mix in turn was kept from a forest, as candidate and as what ran when the rank was\n"
      "measured, and then asked for. MAE is the mean |predicted - true slowdown|, \"measured\" "
      "that\n"
      "of taking the measured slowdown for the candidate's.\n\n```\n",
      name, options.data, facts.machine, name_of(facts.kind), facts.rounds, facts.parallel_trees,
      facts.rows, fmt::join(data.mixes, ", "), interference::k_forest_version,
      interference::k_feature_version, 100 * data.label_noise, 100 * data.quiet_noise);
  for (const Trial& trial : trials) {
    text +=
        fmt::format("{} forest\n{}", name_of(trial.settings.kind), tables(data, trial.held_out));
  }
  text += fmt::format(
      "```\n\n## Importance\n\n"
      "Mean of a feature's part in a prediction without its sign (Shapley values), in binary\n"
      "orders of slowdown, on top of the measured slowdown.\n\n"
      "| feature | unit | meaning | importance |\n|---|---|---|---|\n{}\n"
      "## Limits\n\n"
      "It knows the disturbances in the table above, on one core of this machine, one thread a\n"
      "rank. What lies outside the ranges of its features is said to be out of range; the\n"
      "prediction's error is {:.2f} times the spread of its trees, and at least the label noise.\n",
      importance_table(forest), facts.spread_scale);
  return text;
}

std::string verdict(const Trial& trial, const ForestExamples& data) {
  const double bound = std::max(1.5 * data.label_noise, 0.05);
  return fmt::format(
      "{} forest: held-out MAE {:.3f} ({:.1f} %), {:.0f} % lower than the measured slowdown alone "
      "({:.3f}); 1.5 x label noise or 5 %: {:.1f} %\n",
      name_of(trial.settings.kind), trial.accuracy.mae, 100 * trial.accuracy.relative,
      100 * gain(trial.accuracy), trial.accuracy.measured_mae, 100 * bound);
}

}  // namespace

Forest load_forest(const std::string& file) {
  if (!std::filesystem::exists(file)) {
    throw base::InputError(
        file, "",
        fmt::format("{}; a forest of version {} with features of version {} is expected, as "
                    "`dynpipe forest train` writes it",
                    system_reason(ENOENT), interference::k_forest_version,
                    interference::k_feature_version));
  }
  return Forest::parse(read_text_file(file), file);
}

std::string train_forest(const ForestTrainOptions& options) {
  const ForestData measured = read_forest_data(options.data);
  const ForestExamples data = examples_of(measured);
  const std::vector<Trial> trials = try_kinds(data, options.kind, options.seed);
  const Trial& best = trials.front();
  Forest forest = interference::train(data.examples, best.settings);
  interference::ForestFacts facts = forest.facts();
  facts.label_noise = data.label_noise;
  facts.spread_scale =
      interference::fit_spread_scale(best.held_out, data.examples, data.label_noise);
  facts.held_out = best.accuracy;
  for (std::size_t mix = 0; mix < data.mixes.size(); ++mix) {
    facts.held_out_by_mix[data.mixes[mix]] = interference::accuracy_of(
        best.held_out, data.examples,
        [&](const Example& e) { return counts(e) && e.mix == static_cast<int>(mix); });
  }
  facts.data = std::filesystem::path(options.data).filename().string();
  facts.machine = measured.machine;
  forest.set_facts(std::move(facts));

  const std::filesystem::path out(options.out);
  std::error_code ignored;  // writing says why not
  if (out.has_parent_path()) std::filesystem::create_directories(out.parent_path(), ignored);
  replace_text_file(options.out, forest.to_json());
  const std::string card_file = (out.parent_path() / "README.md").string();
  replace_text_file(card_file, card(forest, data, trials, options));

  std::string text = noise_text(data);
  for (const Trial& trial : trials) text += verdict(trial, data);
  text += "\n" + tables(data, best.held_out);
  return text + fmt::format("\n{} forest written to {}, its card to {}\n",
                            name_of(best.settings.kind), options.out, card_file);
}

std::string evaluate_forest(const ForestEvalOptions& options) {
  const ForestExamples data = examples_of(read_forest_data(options.data));
  if (options.forest.empty()) {
    std::string text = noise_text(data);
    for (const Trial& trial : try_kinds(data, options.kind, options.seed)) {
      text += "\n" + verdict(trial, data) + tables(data, trial.held_out);
    }
    return text;
  }
  const Forest forest = load_forest(options.forest);
  std::vector<interference::FeatureRow> rows;
  for (const Example& example : data.examples) rows.push_back(example.row);
  const auto predictions = forest.predict(rows);
  std::vector<HeldOut> asked;
  std::int64_t outside = 0, within = 0;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const interference::Prediction& p = predictions[i];
    asked.push_back({i, p.slowdown, p.error});
    outside += p.in_range ? 0 : 1;
    within += std::abs(p.slowdown / data.examples[i].slowdown - 1) <= p.error ? 1 : 0;
  }
  std::string text = noise_text(data);
  if (std::filesystem::path(options.data).filename() == forest.facts().data) {
    text += fmt::format("{} was trained on {}: these errors are those of learnt rows.\n",
                        options.forest, forest.facts().data);
  }
  const auto share = [&](std::int64_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(predictions.size());
  };
  return text + "\n" + tables(data, asked) +
         fmt::format(
             "\nout of the forest's range: {:.1f} %; true value within the predicted error: {:.1f} "
             "% (68 % wanted)\n",
             share(outside), share(within));
}

}  // namespace dynpipe::app
