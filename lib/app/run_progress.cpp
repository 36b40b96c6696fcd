#include "app/run_progress.hpp"

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::app {
namespace {

using nlohmann::json;

constexpr double k_most = 1e300;

EpochResult epoch_from(const json& value, const std::string& file) {
  model::ObjectReader reader(value, file, "progress: epochs");
  const auto number = [&](const char* field) {
    return reader.required_number(field, -k_most, k_most);
  };
  EpochResult epoch;
  epoch.epoch = reader.required_int("epoch", 1);
  epoch.train_loss = number("train_loss");
  epoch.train_accuracy = number("train_accuracy");
  epoch.test_loss = number("test_loss");
  epoch.test_accuracy = number("test_accuracy");
  epoch.wall_s = number("wall_s");
  epoch.train_s = number("train_s");
  epoch.samples = reader.required_count("samples", 0);
  reader.done();
  return epoch;
}

}  // namespace

nlohmann::ordered_json epochs_json(const std::vector<EpochResult>& epochs) {
  auto list = nlohmann::ordered_json::array();
  for (const EpochResult& e : epochs) {
    list.push_back({{"epoch", e.epoch},
                    {"train_loss", e.train_loss},
                    {"train_accuracy", e.train_accuracy},
                    {"test_loss", e.test_loss},
                    {"test_accuracy", e.test_accuracy},
                    {"wall_s", e.wall_s},
                    {"train_s", e.train_s},
                    {"samples", e.samples}});
  }
  return list;
}

std::string to_json(const RunProgress& progress) {
  const EpochTotals& totals = progress.totals;
  const nlohmann::ordered_json so_far = {{"loss_sum", totals.loss_sum},
                                         {"correct", totals.correct},
                                         {"samples", totals.samples},
                                         {"train_s", totals.train_s}};
  return nlohmann::ordered_json{{"epochs", epochs_json(progress.epochs)}, {"epoch_so_far", so_far}}
      .dump();
}

RunProgress parse_run_progress(const std::string& text, const std::string& file) {
  const json document = model::parse_document(text, file);
  model::ObjectReader reader(document, file, "progress");
  RunProgress progress;
  for (const json& epoch : reader.required_array("epochs")) {
    progress.epochs.push_back(epoch_from(epoch, file));
    if (progress.epochs.back().epoch != static_cast<std::int64_t>(progress.epochs.size())) {
      reader.refuse("epochs", "are not numbered from 1");
    }
  }
  const json& so_far = reader.require("epoch_so_far");
  reader.done();
  model::ObjectReader totals(so_far, file, "progress: epoch_so_far");
  progress.totals.loss_sum = totals.required_number("loss_sum", -k_most, k_most);
  progress.totals.correct = totals.required_number("correct", 0, k_most);
  progress.totals.samples = totals.required_number("samples", 0, k_most);
  progress.totals.train_s = totals.required_number("train_s", 0, k_most);
  totals.done();
  return progress;
}

bool is_better(const EpochResult& result, const EpochResult& best) {
  return result.test_accuracy > best.test_accuracy ||
         (result.test_accuracy == best.test_accuracy && result.test_loss < best.test_loss);
}

std::optional<EpochResult> best_of(const std::vector<EpochResult>& epochs) {
  std::optional<EpochResult> best;
  for (const EpochResult& epoch : epochs) {
    if (!best || is_better(epoch, *best)) best = epoch;
  }
  return best;
}

}  // namespace dynpipe::app
