#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/measured_profile.hpp"

namespace dynpipe::app {
namespace {

constexpr double k_us_a_second = 1e6;
/// Quartiles this far apart are a neighbour's doing.
constexpr double k_disturbed = 0.1;

double pass_s(const model::LayerTimes& times) {
  return times.forward_s + times.backward_input_s + times.backward_weight_s;
}

std::string layer_row(const model::LayerProfile& layer, const model::Layer& described,
                      std::int64_t samples, const model::LayerTimes& times, double total_s) {
  const double flops = static_cast<double>(described.facts.forward_flops * samples);
  const std::string rate = times.forward_s > 0 && !layer.joined
                               ? fmt::format("{:.1f}", flops / times.forward_s / 1e9)
                               : "";
  return fmt::format("{:<20} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>9} {:>6.1f}% {:>10.1f}\n",
                     layer.name, times.forward_s * k_us_a_second,
                     times.backward_input_s * k_us_a_second,
                     times.backward_weight_s * k_us_a_second, layer.update_s * k_us_a_second, rate,
                     100 * pass_s(times) / total_s, static_cast<double>(layer.kept_bytes) / 1024);
}

std::string passes_row(const model::Profile& profile) {
  std::vector<std::string> sizes;
  for (std::size_t k = 0; k < profile.samples.size(); ++k) {
    double total_s = 0;
    for (const model::LayerProfile& layer : profile.layers) total_s += pass_s(layer.times[k]);
    sizes.push_back(fmt::format("{} samples {:.3f} ms ({:.1f} us each)", profile.samples[k],
                                total_s * 1e3,
                                total_s * k_us_a_second / static_cast<double>(profile.samples[k])));
  }
  return fmt::format("forward and backward of a microbatch: {}\n", fmt::join(sizes, ", "));
}

}  // namespace

std::string describe_profile(const MeasuredProfile& measured, const model::Model& model) {
  const model::Profile& profile = measured.profile;
  const std::size_t last = profile.samples.size() - 1;
  double total_s = 0;
  for (const model::LayerProfile& layer : profile.layers) total_s += pass_s(layer.times[last]);
  std::string text = fmt::format(
      "{} on {}\n\n{:<20} {:>10} {:>10} {:>10} {:>10} {:>9} {:>7} {:>10}\n{:<20} {:>10} {:>10} "
      "{:>10} {:>10} {:>9} {:>7} {:>10}\n",
      profile.model, profile.device, fmt::format("{} samples", profile.samples[last]), "forward",
      "inputs", "weights", "update", "forward", "share", "kept", "", "us", "us", "us", "us",
      "GFLOP/s", "", "KiB/sample");
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    const model::LayerProfile& layer = profile.layers[i];
    text += layer_row(layer, model.layers[i], profile.samples[last], layer.times[last], total_s);
  }
  text += "\n" + passes_row(profile);
  for (const model::LinkProfile& link : profile.links) {
    text += fmt::format(
        "link {} to {}: {:.2f} us, {:.2f} GB/s, {:.2f} GB/s both ways at once, {:.0f} % of a "
        "transfer overlaps with compute\n",
        link.from, link.to, link.latency_s * k_us_a_second, link.bytes_per_s / 1e9,
        link.both_ways_bytes_per_s / 1e9, 100 * link.overlap);
  }
  if (!profile.slowdowns.empty()) {
    text += fmt::format("time of the ranks over their mean: {:.3f}\n",
                        fmt::join(profile.slowdowns, ", "));
  }
  const ProfileQuality& quality = measured.quality;
  text += fmt::format("measured for {:.1f} s, medians known to {:.2f} %\n", quality.passed_s,
                      100 * quality.uncertainty);
  if (quality.spread > k_disturbed) {
    text += fmt::format(
        "warning: half of the groups differ by {:.0f} % or more: something else uses these cores\n",
        100 * quality.spread);
  }
  return text;
}

}  // namespace dynpipe::app
