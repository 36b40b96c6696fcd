#include "interference/booster.hpp"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <limits>

#include "base/errors.hpp"

namespace dynpipe::interference {
namespace {

void check(int result) {
  if (result == 0) return;
  const std::string reason = XGBGetLastError();
  throw base::RunError("XGBoost: " + reason.substr(0, reason.find('\n')));
}

/// Rows in the library's own form.
class Matrix {
 public:
  explicit Matrix(std::span<const FeatureRow> rows) {
    static_assert(sizeof(FeatureRow) == k_features * sizeof(float));
    constexpr int k_threads = 1;
    check(XGDMatrixCreateFromMat_omp(rows.empty() ? nullptr : rows.front().data(), rows.size(),
                                     k_features, std::numeric_limits<float>::quiet_NaN(), &handle_,
                                     k_threads));
  }
  ~Matrix() { XGDMatrixFree(handle_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  DMatrixHandle get() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

/// XGBoost's numbers of what a prediction may be.
enum class Wanted : int { contributions = 2, leaves = 6 };

std::span<const float> predict(BoosterHandle booster, std::span<const FeatureRow> rows,
                               Wanted wanted, const Matrix& matrix) {
  const std::string config = fmt::format(
      R"({{"type":{},"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":true}})",
      static_cast<int>(wanted));
  const bst_ulong* shape = nullptr;
  bst_ulong axes = 0;
  const float* values = nullptr;
  check(XGBoosterPredictFromDMatrix(booster, matrix.get(), config.c_str(), &shape, &axes, &values));
  std::size_t count = 1;
  for (bst_ulong axis = 0; axis < axes; ++axis) count *= shape[axis];
  if (axes == 0 || shape[0] != rows.size()) {
    throw base::RunError("XGBoost: a prediction of another shape than was asked for");
  }
  return {values, count};
}

}  // namespace

struct Booster::Handle {
  BoosterHandle get = nullptr;
  ~Handle() {
    if (get != nullptr) XGBoosterFree(get);
  }
};

Booster::Booster(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Booster::~Booster() = default;
Booster::Booster(Booster&&) noexcept = default;
Booster& Booster::operator=(Booster&&) noexcept = default;

Booster Booster::grow(std::span<const FeatureRow> rows, std::span<const float> labels,
                      const Parameters& parameters, int rounds) {
  const Matrix matrix(rows);
  check(XGDMatrixSetFloatInfo(matrix.get(), "label", labels.data(), labels.size()));
  auto handle = std::make_unique<Handle>();
  const DMatrixHandle cached = matrix.get();
  check(XGBoosterCreate(&cached, 1, &handle->get));
  for (const auto& [name, value] : parameters) {
    check(XGBoosterSetParam(handle->get, name.c_str(), value.c_str()));
  }
  for (int round = 0; round < rounds; ++round) {
    check(XGBoosterUpdateOneIter(handle->get, round, matrix.get()));
  }
  // The library keeps predictions for the matrix, which ends here: go on with a copy.
  return from_json(Booster(std::move(handle)).json());
}

Booster Booster::from_json(const std::string& text) {
  auto handle = std::make_unique<Handle>();
  check(XGBoosterCreate(nullptr, 0, &handle->get));
  check(XGBoosterSetParam(handle->get, "nthread", "1"));
  check(XGBoosterLoadModelFromBuffer(handle->get, text.data(), text.size()));
  check(XGBoosterSetParam(handle->get, "nthread", "1"));
  return Booster(std::move(handle));
}

std::string Booster::json() const {
  bst_ulong length = 0;
  const char* text = nullptr;
  check(XGBoosterSaveModelToBuffer(handle_->get, R"({"format":"json"})", &length, &text));
  return {text, length};
}

std::vector<std::int32_t> Booster::leaves(std::span<const FeatureRow> rows) const {
  if (rows.empty()) return {};
  const Matrix matrix(rows);
  const std::span<const float> found = predict(handle_->get, rows, Wanted::leaves, matrix);
  return {found.begin(), found.end()};
}

std::vector<float> Booster::contributions(std::span<const FeatureRow> rows) const {
  if (rows.empty()) return {};
  const Matrix matrix(rows);
  const std::span<const float> found = predict(handle_->get, rows, Wanted::contributions, matrix);
  return {found.begin(), found.end()};
}

std::string xgboost_version() {
  int major = 0, minor = 0, patch = 0;
  XGBoostVersion(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace dynpipe::interference
