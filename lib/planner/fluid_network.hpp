#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dynpipe::planner {

/// Flows that share channels max-min fairly: each gets as much as it can without taking from one
/// that has less. Equivalently, every flow has a bottleneck: a channel that is full and where no
/// flow gets more (Bertsekas and Gallager, "Data Networks", 6.5.2), which is how a change is worked
/// out: only the flows on channels that it touches are shared out anew, and further ones as far as
/// their bottlenecks have moved.
///
/// Flows are numbered by the caller, with small numbers that are used again.
class FluidNetwork {
 public:
  /// Bytes a second of each channel.
  explicit FluidNetwork(std::vector<double> capacities);

  /// A flow of so many bytes over these channels, which stay in place while it flows. It and the
  /// next two take effect with `share_out`.
  void add(int flow, std::span<const int> channels, double bytes, double now_s);
  void remove(int flow);
  void set_capacity(int channel, double bytes_per_s);

  /// Shares out what changed. Returns the flows whose rate is another one now; valid until the next
  /// call.
  std::span<const int> share_out(double now_s);

  double rate(int flow) const { return flows_[static_cast<std::size_t>(flow)].rate; }
  /// When the flow has passed, if its rate stays.
  double end_s(int flow) const {
    const Flow& f = flows_[static_cast<std::size_t>(flow)];
    return f.since_s + f.left / f.rate;
  }
  /// Bytes of flows that were over a channel and have passed.
  double carried(int channel) const { return channels_[static_cast<std::size_t>(channel)].carried; }

 private:
  struct Flow {
    std::span<const int> channels;
    std::vector<std::uint32_t> places;  ///< in the lists of its channels
    double bytes = 0, left = 0, since_s = 0, rate = 0;
    double next_rate = 0;  ///< while shares are worked out
    int bottleneck = -1;
    std::uint64_t mark = 0;
  };
  struct Entry {
    int flow, hop;
  };
  struct Channel {
    double capacity = 0, carried = 0;
    std::vector<Entry> flows;
    bool changed = false;
    std::uint64_t mark = 0;
    // While shares are worked out:
    double left = 0, level = 0;
    int open = 0, inside = 0;
  };
  struct Candidate {
    double share;
    int channel;
  };

  Channel& channel(int c) { return channels_[static_cast<std::size_t>(c)]; }
  Flow& flow(int f) { return flows_[static_cast<std::size_t>(f)]; }
  bool inside(const Flow& f) const { return f.mark == mark_; }
  void change(int c);
  void include(int f);
  void fill();
  void fix(int c, double share);
  bool take_in_more();
  void apply(double now_s);

  std::vector<Channel> channels_;
  std::vector<Flow> flows_;
  std::vector<int> changed_;  ///< channels, since the last time shares were worked out
  std::uint64_t mark_ = 0;    ///< of the flows and channels that are shared out anew
  std::vector<int> region_flows_, region_channels_;
  std::vector<Candidate> candidates_;
  std::vector<int> rerated_;
};

}  // namespace dynpipe::planner
