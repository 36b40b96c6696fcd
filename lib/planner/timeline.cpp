#include "planner/timeline.hpp"

#include <algorithm>

namespace dynpipe::planner {

Timeline::Timeline(const std::vector<Interference>& all, Interference::Of of, int index) {
  for (const Interference& event : all) {
    if (event.of == of && event.index == index) events_.push_back(event);
  }
  std::ranges::sort(events_, {}, &Interference::start_s);
}

double Timeline::disturbed_end_s(double start_s, double work_s) const {
  double now_s = start_s;
  double left_s = work_s;
  auto event = std::ranges::upper_bound(events_, start_s, {}, &Interference::end_s);
  for (; event != events_.end(); ++event) {
    if (now_s < event->start_s) {
      const double before_s = event->start_s - now_s;
      if (left_s <= before_s) return now_s + left_s;
      left_s -= before_s;
      now_s = event->start_s;
    }
    const double within_s = (event->end_s - now_s) / event->slowdown;
    if (left_s <= within_s) return now_s + left_s * event->slowdown;
    left_s -= within_s;
    now_s = event->end_s;
  }
  return now_s + left_s;
}

std::vector<Timeline> timelines(const std::vector<Interference>& events, Interference::Of of,
                                std::size_t count) {
  std::vector<Timeline> result(count);
  for (const Interference& event : events) {
    if (event.of != of) continue;
    Timeline& timeline = result.at(static_cast<std::size_t>(event.index));
    if (timeline.steady()) timeline = Timeline(events, of, event.index);
  }
  return result;
}

}  // namespace dynpipe::planner
