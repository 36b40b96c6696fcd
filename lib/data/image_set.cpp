#include "data/image_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.hpp"

namespace dynpipe::data {

void check_labels(std::span<const std::int32_t> labels, std::int64_t classes,
                  const std::string& file) {
  const auto bad = std::find_if(labels.begin(), labels.end(), [classes](std::int32_t label) {
    return label < 0 || label >= classes;
  });
  if (bad == labels.end()) return;
  throw base::InputError(file, fmt::format("labels[{}]", bad - labels.begin()),
                         fmt::format("is {}, but the model tells {} classes apart (0 to {})", *bad,
                                     classes, classes - 1));
}

}  // namespace dynpipe::data
