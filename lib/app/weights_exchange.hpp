#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dynpipe::app {

/// What `dynpipe checkpoint export` was asked to do.
struct ExportOptions {
  std::string source;       ///< file of weights, checkpoint, or folder of checkpoints
  std::string safetensors;  ///< file to write
};

/// What `dynpipe checkpoint import` was asked to do.
struct ImportWeightsOptions {
  std::string safetensors;  ///< file to read
  std::string model;        ///< its description
  std::string out;          ///< file of weights to write
};

/// Texts of --help.
std::string export_help();
std::string import_weights_help();
/// Read the words after `export` and `import`. Empty if --help was asked for. Throw InputError
/// naming the option.
std::optional<ExportOptions> parse_export_options(const std::vector<std::string>& words);
std::optional<ImportWeightsOptions> parse_import_weights_options(
    const std::vector<std::string>& words);

/// Writes weights as a safetensors file that PyTorch's `load_state_dict` takes: names, shapes and
/// order of elements are PyTorch's in both; each batch norm gets the `num_batches_tracked` that
/// PyTorch wants (I64: updates made, 0 where they are not known). Returns what was done, for
/// people. Throws InputError for the source, RunError for the file.
std::string export_weights(const ExportOptions& options);

/// The way back: a file of weights (`eval --weights`, `train --init-from`) out of a state dict that
/// holds what the model needs (F64, F32, F16 or BF16) and no more than that. Names may all begin
/// with `module.` or
/// `_orig_mod.`, as PyTorch's wrappers leave them; `num_batches_tracked` is left out. Throws
/// InputError naming the tensors that are missing, too many, or of another shape or type.
std::string import_weights(const ImportWeightsOptions& options);

}  // namespace dynpipe::app
