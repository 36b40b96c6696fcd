#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "backend/array.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device/fake/fake_device.hpp"
#include "ops/ops.hpp"

namespace dynpipe::test {

using base::Shape;
using ops::Accumulate;
using ops::Activation;
using ops::Ops;
using ops::Window;
using tensor::DType;
using tensor::Layout;
using tensor::Tensor;

/// A backend and the device that it runs on.
struct Backend {
  std::string name;
  std::unique_ptr<Ops> (*make_ops)();
  std::unique_ptr<device::Device> (*make_device)();

  /// How GoogleTest shows it.
  friend void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }
};

inline std::unique_ptr<device::Device> make_cpu() {
  return std::make_unique<device::CpuDevice>();
}

inline std::vector<Backend> backends() {
  const auto make_fake = []() -> std::unique_ptr<device::Device> {
    return std::make_unique<device::FakeDevice>(
        device::FakeDeviceOptions{.seed = 1, .longest_pause_s = 0});
  };
  return {
      {"reference_float32", [] { return ops::make_reference_ops(DType::float32); }, make_cpu},
      {"reference_float64", [] { return ops::make_reference_ops(DType::float64); }, make_cpu},
      {"onednn", [] { return ops::make_onednn_ops(); }, make_cpu},
      {"onednn_on_2_threads", [] { return ops::make_onednn_ops(2); }, make_cpu},
      {"onednn_on_fake_device", [] { return ops::make_onednn_ops(); }, make_fake},
  };
}

inline std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

/// Moves numbers to and from a backend under test. Memory that is not uploaded to holds NaN, so
/// that what a call fails to write, or reads though it should not, shows in its result.
class BackendTest : public testing::TestWithParam<Backend> {
 protected:
  BackendTest()
      : device_(GetParam().make_device()),
        ops_(GetParam().make_ops()),
        stream_(device_->make_stream("test")) {}

  Ops& ops() { return *ops_; }
  device::Stream& stream() { return *stream_; }

  /// Unit roundoff of the backend's numbers. The expectation itself is computed in float64.
  double roundoff() const { return ops_->dtype() == DType::float32 ? 0x1.0p-24 : 0x1.0p-53; }

  /// The layouts in which this backend must take images of this batched shape.
  std::vector<Layout> layouts(const Shape& images) const {
    if (ops_->preferred_layout(images.without_batch()) == Layout::plain) return {Layout::plain};
    return {Layout::plain, Layout::blocked};
  }

  std::byte* allocate(std::size_t bytes) {
    buffers_.push_back(device_->allocate(std::max<std::size_t>(bytes, 1)));
    return buffers_.back().data();
  }

  Tensor poisoned(const Shape& shape, Layout layout = Layout::plain) {
    return poisoned_of(ops_->dtype(), shape, layout);
  }
  /// Of NaN in the given type, which may be another than the backend's.
  Tensor poisoned_of(DType dtype, const Shape& shape, Layout layout = Layout::plain) {
    Tensor tensor{nullptr, dtype, layout, shape};
    tensor.data = allocate(tensor.bytes());
    const auto count = static_cast<std::size_t>(shape.elements());
    if (dtype == DType::float64) {
      std::fill_n(tensor.as<double>(), count, std::numeric_limits<double>::quiet_NaN());
    } else {
      std::fill_n(tensor.as<float>(), count, std::numeric_limits<float>::quiet_NaN());
    }
    return tensor;
  }

  Tensor upload(const Array& array, Layout layout = Layout::plain) {
    const Tensor plain = poisoned(array.shape);
    for (std::size_t i = 0; i < array.size(); ++i) {
      if (plain.dtype == DType::float64) {
        plain.as<double>()[i] = array[i];
      } else {
        plain.as<float>()[i] = static_cast<float>(array[i]);
      }
    }
    if (layout == Layout::plain) return plain;
    const Tensor result = poisoned(array.shape, layout);
    ops_->reorder(*stream_, plain, result);
    return result;
  }

  /// A convolution's weights, in one of the layouts in which this backend must take them.
  Tensor upload_weights(const Array& array, Layout layout) {
    const Tensor plain = upload(array);
    if (layout == Layout::plain) return plain;
    const Tensor result = poisoned(array.shape, layout);
    ops_->reorder_weights(*stream_, plain, result);
    return result;
  }
  /// Those for a convolution between images in these layouts.
  std::vector<Layout> weights_layouts(const Window& window, const Shape& w, Layout x,
                                      Layout y) const {
    const Layout preferred = ops_->preferred_weights_layout(window, w, x, y);
    if (preferred == Layout::plain) return {Layout::plain};
    return {Layout::plain, preferred};
  }

  /// Where a call is to leave a gradient: holds `before` under `add`, and nothing under `set`.
  Tensor gradient(Accumulate accumulate, const Array& before, Layout layout = Layout::plain) {
    return accumulate == Accumulate::add ? upload_weights(before, layout)
                                         : poisoned(before.shape, layout);
  }

  Array download(const Tensor& tensor) {
    Tensor plain = tensor;
    if (tensor.layout == Layout::blocked) {
      plain = poisoned(tensor.shape);
      ops_->reorder(*stream_, tensor, plain);
    }
    return download_plain(plain);
  }
  Array download_weights(const Tensor& tensor) {
    Tensor plain = tensor;
    if (tensor.layout != Layout::plain) {
      plain = poisoned(tensor.shape);
      ops_->reorder_weights(*stream_, tensor, plain);
    }
    return download_plain(plain);
  }
  Array download_plain(const Tensor& tensor) {
    const Tensor& plain = tensor;
    finish();
    Array array(tensor.shape);
    for (std::size_t i = 0; i < array.size(); ++i) {
      array[i] =
          plain.dtype == DType::float64 ? plain.as<double>()[i] : double{plain.as<float>()[i]};
    }
    return array;
  }

  /// Wait until everything launched has run.
  void finish() {
    const device::Event done = stream_->record();
    while (!done.reached()) std::this_thread::yield();
  }

  /// |actual - expected| <= tolerance, element by element; two NaN are equal.
  static void expect_close(const Array& actual, const Array& expected, const Array& tolerance,
                           const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
      if (actual[i] == expected[i]) continue;  // equal infinities
      ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance[i])
          << what << ", element " << i << ": " << actual[i] << " for " << expected[i];
    }
  }
  static void expect_equal(const Array& actual, const Array& expected, const std::string& what) {
    expect_close(actual, expected, Array(expected.shape), what);
  }

  /// How far a sum of `terms` products may be off, in any order of summation: terms u sum |a b| to
  /// first order (Higham, "Accuracy and Stability of Numerical Algorithms", eq. 3.5), where
  /// `magnitudes` are the sums of |a b|. Some more roundings are granted for what is done to the
  /// sum, and as much again for the expectation.
  Array summation_bound(double terms, const Array& magnitudes) const {
    const double factor = (terms + 4) * (roundoff() + 0x1.0p-53);
    return map([&](double m) { return factor * m; }, magnitudes);
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::vector<device::Buffer> buffers_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<device::Stream> stream_;  // goes first: it may still be at work with the others
};

inline std::string name_of(Layout layout) {
  switch (layout) {
    case Layout::plain:
      return "plain";
    case Layout::blocked:
      return "blocked";
    case Layout::transposed:
      return "transposed";
    case Layout::rows:
      return "rows";
  }
  return "?";
}

inline std::string name_of(Accumulate accumulate) {
  return accumulate == Accumulate::set ? "set" : "add";
}

/// What a call must leave in a gradient: `value`, on top of `before` under `add`.
inline Array accumulated(Accumulate accumulate, const Array& before, const Array& value) {
  if (accumulate == Accumulate::set) return value;
  return map([](double a, double b) { return a + b; }, before, value);
}

inline constexpr Accumulate k_accumulates[] = {Accumulate::set, Accumulate::add};

}  // namespace dynpipe::test
