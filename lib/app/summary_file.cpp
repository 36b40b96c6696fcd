#include "app/summary_file.hpp"

#include "app/text_file.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {

SummaryFile::SummaryFile(std::string file, std::function<std::string(const TrainResult&)> to_json,
                         std::function<void(const std::string&)> warn, TrainResult so_far)
    : file_(std::move(file)),
      to_json_(std::move(to_json)),
      warn_(std::move(warn)),
      so_far_(std::move(so_far)) {
  replace_text_file(file_, to_json_(so_far_));
}

void SummaryFile::on_evaluation(const EvaluationEvent& event) {
  so_far_.epochs.push_back(event.result);
  renew();
}

void SummaryFile::on_end(RunStatus status, const std::string& reason) {
  if (status == RunStatus::completed) return;
  so_far_.status = status;
  so_far_.reason = reason;
  renew();
}

void SummaryFile::complete(const TrainResult& result) {
  replace_text_file(file_, to_json_(result));
}

void SummaryFile::renew() {
  try {
    replace_text_file(file_, to_json_(so_far_));
  } catch (const base::InputError& error) {
    if (!warned_) warn_(error.what());
    warned_ = true;
  }
}

}  // namespace dynpipe::app
