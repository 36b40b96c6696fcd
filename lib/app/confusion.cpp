#include "app/confusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace dynpipe::app {
namespace {

constexpr std::int64_t k_most_classes_of_a_table = 20;
constexpr std::size_t k_worst = 20;

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string whole_table(const Confusion& confusion) {
  std::int64_t most = confusion.classes() - 1;
  for (std::int64_t label = 0; label < confusion.classes(); ++label) {
    most = std::max(most, confusion.samples(label));
  }
  const std::size_t width = std::max<std::size_t>(4, fmt::format("{}", most).size() + 1);
  std::string text = "label  accuracy  predicted as\n                ";
  for (std::int64_t p = 0; p < confusion.classes(); ++p) text += fmt::format("{:>{}}", p, width);
  text += '\n';
  for (std::int64_t label = 0; label < confusion.classes(); ++label) {
    text += fmt::format("{:>5}  {:>8} ", label,
                        percent(confusion.correct(label), confusion.samples(label)));
    for (std::int64_t p = 0; p < confusion.classes(); ++p) {
      const std::int64_t count = confusion.at(label, p);
      text += count == 0 ? fmt::format("{:>{}}", ".", width) : fmt::format("{:>{}}", count, width);
    }
    text += '\n';
  }
  return text;
}

double accuracy(const Confusion& confusion, std::int64_t label) {
  return static_cast<double>(confusion.correct(label)) /
         static_cast<double>(confusion.samples(label));
}

std::string worst_classes(const Confusion& confusion) {
  std::vector<std::int64_t> labels;
  for (std::int64_t label = 0; label < confusion.classes(); ++label) {
    if (confusion.samples(label) > 0) labels.push_back(label);
  }
  std::stable_sort(labels.begin(), labels.end(), [&](std::int64_t a, std::int64_t b) {
    return accuracy(confusion, a) < accuracy(confusion, b);
  });
  labels.resize(std::min(labels.size(), k_worst));
  std::string text = fmt::format("label  accuracy  samples   (the {} worst of {} classes)\n",
                                 labels.size(), confusion.classes());
  for (std::int64_t label : labels) {
    text += fmt::format("{:>5}  {:>8}  {:>7}\n", label,
                        percent(confusion.correct(label), confusion.samples(label)),
                        confusion.samples(label));
  }
  return text;
}

std::string worst_confusions(const Confusion& confusion) {
  struct Cell {
    std::int64_t label, prediction, count;
  };
  std::vector<Cell> cells;
  for (std::int64_t label = 0; label < confusion.classes(); ++label) {
    for (std::int64_t p = 0; p < confusion.classes(); ++p) {
      const std::int64_t count = confusion.at(label, p);
      if (p != label && count > 0) cells.push_back({label, p, count});
    }
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const Cell& a, const Cell& b) { return a.count > b.count; });
  cells.resize(std::min(cells.size(), k_worst));
  std::string text = "label  predicted as  samples   (the most frequent confusions)\n";
  for (const Cell& cell : cells) {
    text += fmt::format("{:>5}  {:>12}  {:>7}\n", cell.label, cell.prediction, cell.count);
  }
  return text;
}

}  // namespace

Confusion::Confusion(std::int64_t classes)
    : classes_(classes), counts_(static_cast<std::size_t>(classes * classes), 0) {}

void Confusion::add(std::span<const std::int32_t> labels,
                    std::span<const std::int32_t> predictions) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ++counts_[static_cast<std::size_t>(labels[i] * classes_ + predictions[i])];
  }
}

std::int64_t Confusion::at(std::int64_t label, std::int64_t prediction) const {
  return counts_[static_cast<std::size_t>(label * classes_ + prediction)];
}

std::int64_t Confusion::samples(std::int64_t label) const {
  const auto row = counts_.begin() + label * classes_;
  return std::accumulate(row, row + classes_, std::int64_t{0});
}

std::string describe(const Confusion& confusion) {
  if (confusion.classes() <= k_most_classes_of_a_table) return whole_table(confusion);
  return worst_classes(confusion) + "\n" + worst_confusions(confusion);
}

}  // namespace dynpipe::app
