// How much of the best sgemm rate the convolutions and products of a model reach: the three passes
// of all of them, a sgemm between any two layers.
//
// layer_speed MODEL BATCH: lines of "what value unit"; on standard error each layer's three passes
// (forward, backward of inputs, of weights).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/clock.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/layer.hpp"

namespace {

using namespace dynpipe;
using tensor::Layout;
using tensor::Tensor;

constexpr int k_rounds = 3;

class Memory {
 public:
  Tensor tensor(const base::Shape& shape, Layout layout = Layout::plain) {
    Tensor result{nullptr, tensor::DType::float32, layout, shape};
    buffers_.push_back(device_.allocate(result.bytes()));
    result.data = buffers_.back().data();
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      result.as<float>()[i] = static_cast<float>(i % 17 - 8) / 64;
    }
    return result;
  }

 private:
  device::CpuDevice device_;
  std::vector<device::Buffer> buffers_;
};

/// Of `work`, the fastest of some rounds.
template <typename Work>
double seconds(const base::Clock& clock, Work work) {
  double best = 1e9;
  for (int round = 0; round <= k_rounds; ++round) {
    const double began_s = clock.now_s();
    work();
    if (round > 0) best = std::min(best, clock.now_s() - began_s);
  }
  return best;
}

struct Sum {
  double flops = 0, seconds = 0, last = 0;
  void add(double more_flops, double more_s) {
    flops += more_flops;
    seconds += more_s;
    last = 1e-9 * more_flops / more_s;
  }
  double gflops() const { return 1e-9 * flops / seconds; }
};

void run(const model::Model& model, std::int64_t batch) {
  const base::SteadyClock clock;
  device::CpuDevice device;
  const auto stream = device.make_stream("bench");
  const auto ops = ops::make_onednn_ops(1);
  double sgemm_gflops = 0;
  const auto try_sgemm = [&](std::int64_t n, std::int64_t i, std::int64_t o) {
    Memory memory;
    const Tensor x = memory.tensor({n, i}), w = memory.tensor({o, i}), y = memory.tensor({n, o});
    const double s = seconds(clock, [&] { ops->linear(*stream, x, w, {}, y); });
    sgemm_gflops = std::max(sgemm_gflops, 2e-9 * static_cast<double>(n * i * o) / s);
  };
  Sum forward, input, weights;
  Layout layout = Layout::plain;
  bool first = true;
  for (const model::Layer& layer : model.layers) {
    const nn::LayerContext context{layer, layout, batch, *ops, nn::layer_types()};
    const auto made = nn::make_layer(context);
    layout = made->output_layout();
    if (layer.facts.parameters.empty() || layer.facts.parameters[0].shape.rank() < 2) continue;
    try_sgemm(1024, 1024, 1024);
    try_sgemm(2048, 1024, 512);
    Memory memory;
    const Tensor x = memory.tensor(made->input().with_batch(batch), made->input_layout());
    const Tensor y = memory.tensor(made->output().with_batch(batch), made->output_layout());
    const Tensor dx = memory.tensor(made->input().with_batch(batch), made->input_layout());
    std::vector<Tensor> parameters, backward, gradients;
    for (std::size_t p = 0; p < layer.facts.parameters.size(); ++p) {
      const base::Shape& shape = layer.facts.parameters[p].shape;
      const Layout own = made->parameter_layout(p);
      parameters.push_back(memory.tensor(shape, own));
      gradients.push_back(memory.tensor(shape, own));
      backward.push_back(memory.tensor(shape, ops->backward_weights_layout(own)));
    }
    const nn::Weights all{parameters, {}, backward};
    const nn::Pass pass{*ops, *stream};
    const nn::Gradients into{gradients, ops::Accumulate::set, {}};
    const double flops = static_cast<double>(layer.facts.forward_flops * batch);
    forward.add(flops, seconds(clock, [&] { made->forward(pass, all, x, y, nullptr); }));
    weights.add(
        flops, seconds(clock, [&] { made->backward_weights(pass, x, y, nullptr, into, nullptr); }));
    if (!first) {
      input.add(flops, seconds(clock, [&] {
                  made->backward_input(pass, all, x, y, y, nullptr, into, dx, nullptr);
                }));
    }
    first = false;
    fmt::print(stderr, "{:<20} {:>6.1f} {:>6.1f} {:>6.1f} GFLOP/s\n", layer.spec.name, forward.last,
               input.last, weights.last);
  }
  Sum total;
  for (const Sum& sum : {forward, input, weights}) total.add(sum.flops, sum.seconds);
  fmt::print("best sgemm {:.1f} GFLOP/s\n", sgemm_gflops);
  fmt::print("{} forward {:.1f} GFLOP/s\n", model.name, forward.gflops());
  fmt::print("{} backward of inputs {:.1f} GFLOP/s\n", model.name, input.gflops());
  fmt::print("{} backward of weights {:.1f} GFLOP/s\n", model.name, weights.gflops());
  fmt::print("{} three passes, of the best sgemm {:.1f} %\n", model.name,
             100 * total.gflops() / sgemm_gflops);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: layer_speed MODEL BATCH\n");
    return 2;
  }
  std::ifstream stream(argv[1]);
  std::ostringstream text;
  text << stream.rdbuf();
  run(model::parse_model(text.str(), argv[1], nn::layer_types()), std::atoll(argv[2]));
  return 0;
}
