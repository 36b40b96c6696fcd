#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>

namespace dynpipe::pipeline {

/// The few things that are under way at once, by number (of microbatch, or of update group). Looked
/// up one after the other; grows to the most there ever are, then allocates no more.
template <typename T>
class Slots {
 public:
  T* find(std::int64_t number) {
    for (Slot& slot : slots_) {
      if (slot.number == number) return &slot.value;
    }
    return nullptr;
  }
  /// Throws std::logic_error where it is not there.
  T& at(std::int64_t number) {
    T* found = find(number);
    if (found == nullptr) throw std::logic_error("nothing is under way of that number");
    return *found;
  }
  /// What is there, or a new one.
  T& open(std::int64_t number) {
    if (T* found = find(number)) return *found;
    for (Slot& slot : slots_) {
      if (slot.number != k_free) continue;
      slot.number = number;
      return slot.value;
    }
    slots_.push_back({number, T{}});
    return slots_.back().value;
  }
  void close(std::int64_t number) {
    for (Slot& slot : slots_) {
      if (slot.number == number) slot = {k_free, T{}};
    }
  }

 private:
  static constexpr std::int64_t k_free = INT64_MIN;
  struct Slot {
    std::int64_t number;
    T value;
  };
  std::deque<Slot> slots_;  ///< whose references stay valid as it grows
};

}  // namespace dynpipe::pipeline
