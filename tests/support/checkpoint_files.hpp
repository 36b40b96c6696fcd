#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "io/checkpoint.hpp"

namespace dynpipe::testing {

/// Text of a model of two layers, `conv1` [2,1,3,3] with batch norm's statistics beside it in
/// `bn1`, and `fc` [3,2]; and its name.
extern const char* const k_small_model;

/// Writes a checkpoint of that model after `update` updates: two stages, the first with an older
/// version of its weights, both with momentum. Values differ everywhere. Returns its folder.
std::filesystem::path write_small_checkpoint(const std::filesystem::path& folder,
                                             std::int64_t update);

}  // namespace dynpipe::testing
