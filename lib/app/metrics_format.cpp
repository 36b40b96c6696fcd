#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/metrics_file.hpp"

namespace dynpipe::app {
namespace {

using nlohmann::ordered_json;

/// As many digits as it takes to read the same number back. JSON knows only finite numbers; the
/// library writes others as null.
class JsonLines final : public MetricsFormat {
 public:
  std::string update(const GroupEvent& event) const override {
    ordered_json busy = ordered_json::array();
    for (const StageLoad& load : event.loads) {
      busy.push_back(load.known ? ordered_json(load.busy) : ordered_json());
    }
    return line({{"kind", "update"},
                 {"update", event.update},
                 {"epoch", event.epoch},
                 {"time_s", event.time_s},
                 {"loss", event.loss},
                 {"accuracy", event.accuracy},
                 {"lr", event.learning_rate},
                 {"samples", event.samples},
                 {"samples_per_s", event.samples_per_s},
                 {"busy", busy}});
  }

  std::string evaluation(const EvaluationEvent& event) const override {
    const EpochResult& result = event.result;
    return line({{"kind", "eval"},
                 {"update", event.update},
                 {"epoch", result.epoch},
                 {"time_s", event.time_s},
                 {"train_loss", result.train_loss},
                 {"train_accuracy", result.train_accuracy},
                 {"test_loss", result.test_loss},
                 {"test_accuracy", result.test_accuracy},
                 {"best", event.best}});
  }

  std::string end(RunStatus status, const std::string& reason) const override {
    ordered_json record = {{"kind", "end"}, {"status", name_of(status)}};
    if (!reason.empty()) record["reason"] = reason;
    return line(record);
  }

  std::optional<std::int64_t> update_in(const std::string& text) const override {
    const auto record = nlohmann::json::parse(text, nullptr, false);
    if (!record.is_object() || !record.contains("update")) return std::nullopt;
    return record["update"].is_number_integer()
               ? std::optional(record["update"].get<std::int64_t>())
               : std::nullopt;
  }

 private:
  static std::string line(const ordered_json& record) {
    return record.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }
};

/// One table for both kinds of records; what a kind has not is empty, and so is what is not finite.
class Csv final : public MetricsFormat {
 public:
  explicit Csv(int stages) : stages_(stages) {}

  std::string header() const override {
    std::string text =
        "kind,update,epoch,time_s,loss,accuracy,lr,samples,samples_per_s,test_loss,test_accuracy,"
        "best";
    for (int s = 0; s < stages_; ++s) text += fmt::format(",busy_{}", s);
    return text + "\n";
  }

  std::string update(const GroupEvent& event) const override {
    std::string text =
        fmt::format("update,{},{},{},{},{},{},{},{},,,", event.update, event.epoch,
                    number(event.time_s), number(event.loss), number(event.accuracy),
                    number(event.learning_rate), event.samples, number(event.samples_per_s));
    for (const StageLoad& load : event.loads) text += "," + (load.known ? number(load.busy) : "");
    return text + "\n";
  }

  std::string evaluation(const EvaluationEvent& event) const override {
    const EpochResult& result = event.result;
    return fmt::format("eval,{},{},{},{},{},,,,{},{},{}{}\n", event.update, result.epoch,
                       number(event.time_s), number(result.train_loss),
                       number(result.train_accuracy), number(result.test_loss),
                       number(result.test_accuracy), event.best ? 1 : 0,
                       std::string(static_cast<std::size_t>(stages_), ','));
  }

  std::string end(RunStatus, const std::string&) const override { return ""; }

  std::optional<std::int64_t> update_in(const std::string& text) const override {
    const std::size_t first = text.find(',') + 1;
    std::int64_t update = 0;
    const auto read = std::from_chars(text.data() + first, text.data() + text.size(), update);
    if (read.ec != std::errc()) return std::nullopt;
    return update;
  }

 private:
  static std::string number(double value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "";
  }

  int stages_;
};

}  // namespace

std::unique_ptr<MetricsFormat> MetricsFormat::for_file(const std::string& file, int stages) {
  if (file.ends_with(".csv")) return std::make_unique<Csv>(stages);
  return std::make_unique<JsonLines>();
}

}  // namespace dynpipe::app
