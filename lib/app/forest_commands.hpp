#pragma once

#include <string>

#include "app/forest_options.hpp"
#include "interference/forest.hpp"

namespace dynpipe::app {

/// Reads a forest's file. Throws InputError naming the file and what is wrong with it; says which
/// version is expected where there is none.
interference::Forest load_forest(const std::string& file);

/// `dynpipe forest train`: grows forests, holding out each layer mix in turn, then one on all data;
/// writes it and its card. What it has to tell.
std::string train_forest(const ForestTrainOptions& options);

/// `dynpipe forest eval`: tables of errors by mix and by disturbance.
std::string evaluate_forest(const ForestEvalOptions& options);

/// `dynpipe forest explain`: features by importance, and one prediction in words.
std::string explain_forest(const ExplainOptions& options);

}  // namespace dynpipe::app
