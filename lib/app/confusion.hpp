#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynpipe::app {

/// Which classes were taken for which: rows are labels, columns predictions.
class Confusion {
 public:
  /// `classes` at least 1.
  explicit Confusion(std::int64_t classes);
  /// Counts these samples. Labels and predictions lie in 0 .. classes-1, and are equally many.
  void add(std::span<const std::int32_t> labels, std::span<const std::int32_t> predictions);

  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t label, std::int64_t prediction) const;
  /// Samples of a label, and how many of them were recognised.
  std::int64_t samples(std::int64_t label) const;
  std::int64_t correct(std::int64_t label) const { return at(label, label); }

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;  ///< [label][prediction]
};

/// Accuracy by class and, up to 20 classes, the whole matrix; beyond, the classes that are
/// recognised least and the confusions that are most frequent. Tables for people.
std::string describe(const Confusion& confusion);

}  // namespace dynpipe::app
