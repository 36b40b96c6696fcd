#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/sample_order.hpp"
#include "plan/plan.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// What a network says of some samples, in their order.
struct Predictions {
  std::int64_t classes = 0;
  std::vector<std::int32_t> labels, predictions;  ///< [N]; a prediction is the largest logit's
  std::vector<double> logits;                     ///< [N, classes], or empty where not kept

  /// Adds a microbatch: its labels [n] and logits [n, classes], of any float type.
  void add(const std::vector<std::int32_t>& microbatch_labels, const tensor::Tensor& values,
           bool keep_logits);
};

/// Predictions as bytes and back, for the way to rank 0.
std::string pack(const Predictions& predictions);
Predictions unpack_predictions(const std::string& bytes);

/// Puts what the last stage's ranks predicted, `parts` by rank, into the order of the samples. Rank
/// r's part holds the microbatches of `order` that it owns under `plan`, in order.
Predictions in_sample_order(const std::vector<Predictions>& parts, const plan::Plan& plan,
                            const data::EvaluationOrder& order);

/// Writes /labels [N] and /predictions [N] (int32) and /logits [N, classes] (of the type in which
/// they were computed). Throws RunError.
void write_predictions(const std::string& file, const Predictions& predictions,
                       tensor::DType dtype);

}  // namespace dynpipe::app
