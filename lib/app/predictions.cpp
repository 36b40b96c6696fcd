#include "app/predictions.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "io/hdf5.hpp"

namespace dynpipe::app {
namespace {

template <typename T>
void add_rows(const T* values, std::int64_t rows, bool keep_logits, Predictions& to) {
  for (std::int64_t n = 0; n < rows; ++n) {
    const std::span<const T> row(values + n * to.classes, static_cast<std::size_t>(to.classes));
    const auto largest = std::max_element(row.begin(), row.end());  // the first of equals
    to.predictions.push_back(static_cast<std::int32_t>(largest - row.begin()));
    if (!keep_logits) continue;
    to.logits.insert(to.logits.end(), row.begin(), row.end());
  }
}

template <typename T>
void put(std::string& bytes, const std::vector<T>& values) {
  const std::size_t count = values.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(T));
}

template <typename T>
std::vector<T> take(const char*& next) {
  std::size_t count = 0;
  std::memcpy(&count, next, sizeof count);
  next += sizeof count;
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), next, count * sizeof(T));
  next += count * sizeof(T);
  return values;
}

}  // namespace

void Predictions::add(const std::vector<std::int32_t>& microbatch_labels,
                      const tensor::Tensor& values, bool keep_logits) {
  const auto rows = static_cast<std::int64_t>(microbatch_labels.size());
  labels.insert(labels.end(), microbatch_labels.begin(), microbatch_labels.end());
  if (values.dtype == tensor::DType::float64) {
    add_rows(values.as<double>(), rows, keep_logits, *this);
  } else {
    add_rows(values.as<float>(), rows, keep_logits, *this);
  }
}

std::string pack(const Predictions& predictions) {
  std::string bytes;
  put(bytes, std::vector<std::int64_t>{predictions.classes});
  put(bytes, predictions.labels);
  put(bytes, predictions.predictions);
  put(bytes, predictions.logits);
  return bytes;
}

Predictions unpack_predictions(const std::string& bytes) {
  const char* next = bytes.data();
  Predictions predictions;
  predictions.classes = take<std::int64_t>(next).front();
  predictions.labels = take<std::int32_t>(next);
  predictions.predictions = take<std::int32_t>(next);
  predictions.logits = take<double>(next);
  return predictions;
}

Predictions in_sample_order(const std::vector<Predictions>& parts, const plan::Plan& plan,
                            const data::EvaluationOrder& order) {
  const int last = plan.size() - 1;
  std::size_t samples = 0;
  std::size_t logits = 0;
  for (const Predictions& part : parts) {
    samples += part.labels.size();
    logits += part.logits.size();
  }
  Predictions all;
  all.classes = parts[static_cast<std::size_t>(plan.stages.back().ranks.front())].classes;
  all.labels.resize(samples);
  all.predictions.resize(samples);
  all.logits.resize(logits);
  std::vector<std::size_t> next(parts.size(), 0);
  for (std::int64_t k = 0; k < order.microbatches(); ++k) {
    const auto rank = static_cast<std::size_t>(plan.owner(last, k));
    const Predictions& part = parts[rank];
    for (std::uint64_t sample : order.microbatch(k)) {
      const std::size_t from = next[rank]++;
      all.labels[sample] = part.labels[from];
      all.predictions[sample] = part.predictions[from];
      if (logits == 0) continue;
      const auto row = part.logits.begin() + static_cast<std::ptrdiff_t>(from) * all.classes;
      std::copy_n(row, all.classes,
                  all.logits.begin() + static_cast<std::ptrdiff_t>(sample) * all.classes);
    }
  }
  return all;
}

void write_predictions(const std::string& file, const Predictions& predictions,
                       tensor::DType dtype) {
  const std::uint64_t samples = predictions.labels.size();
  io::File h5 = io::File::create(file);
  const auto put_numbers = [&](const char* path, const std::vector<std::int32_t>& numbers) {
    h5.create_dataset(path, {io::Element::int32, {samples}, {}, 0})
        .write_all(std::span<const std::int32_t>(numbers));
  };
  put_numbers("/labels", predictions.labels);
  put_numbers("/predictions", predictions.predictions);
  const auto classes = static_cast<std::uint64_t>(predictions.classes);
  const bool wide = dtype == tensor::DType::float64;
  const io::Element element = wide ? io::Element::float64 : io::Element::float32;
  h5.create_dataset("/logits", {element, {samples, classes}, {}, 0})
      .write_all(std::span<const double>(predictions.logits));
  h5.close();
}

}  // namespace dynpipe::app
