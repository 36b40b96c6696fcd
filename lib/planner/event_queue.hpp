#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dynpipe::planner {

/// The next thing that happens to each of many, by slot: at most one a slot, which may be moved.
/// Of those at one time the one with the least tag comes first, whatever the order they were put
/// in.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  double next_s() const { return heap_.front().time_s; }

  /// Puts the slot's event at a time, wherever it was before.
  void put(int slot, double time_s, std::uint64_t tag) {
    const auto s = static_cast<std::size_t>(slot);
    if (s >= place_.size()) place_.resize(s + 1, k_nowhere);
    const Entry entry{time_s, tag, slot};
    if (place_[s] == k_nowhere) {
      heap_.push_back(entry);
      rise(heap_.size() - 1, entry);
    } else if (entry.before(heap_[place_[s]])) {
      rise(place_[s], entry);
    } else {
      sink(place_[s], entry);
    }
  }

  /// Takes out the next event. Returns its slot.
  int pop() {
    const int slot = heap_.front().slot;
    place_[static_cast<std::size_t>(slot)] = k_nowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
    return slot;
  }

 private:
  static constexpr std::size_t k_nowhere = static_cast<std::size_t>(-1);
  static constexpr std::size_t k_children = 4;

  struct Entry {
    double time_s;
    std::uint64_t tag;
    int slot;
    bool before(const Entry& other) const {
      return time_s < other.time_s || (time_s == other.time_s && tag < other.tag);
    }
  };

  void settle(std::size_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[static_cast<std::size_t>(entry.slot)] = at;
  }
  void rise(std::size_t at, const Entry& entry) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / k_children;
      if (!entry.before(heap_[parent])) break;
      settle(at, heap_[parent]);
      at = parent;
    }
    settle(at, entry);
  }
  void sink(std::size_t at, const Entry& entry) {
    for (;;) {
      const std::size_t first = at * k_children + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      for (std::size_t c = first + 1; c < first + k_children && c < heap_.size(); ++c) {
        if (heap_[c].before(heap_[least])) least = c;
      }
      if (!heap_[least].before(entry)) break;
      settle(at, heap_[least]);
      at = least;
    }
    settle(at, entry);
  }

  std::vector<Entry> heap_;         ///< by time, then tag
  std::vector<std::size_t> place_;  ///< in the heap, by slot
};

}  // namespace dynpipe::planner
