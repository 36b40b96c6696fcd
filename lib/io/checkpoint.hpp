#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/digest.hpp"
#include "io/hdf5.hpp"
#include "tensor/tensor.hpp"

/// Checkpoints: the state of a training run after G updates, that any number of ranks can load.
///
/// A run's checkpoints lie in one folder, each in a folder of its own:
///
///     step-400/
///       index.h5          what the run was; links to every tensor: the one file to open
///       stage-0.h5 ...    the tensors of a stage's layers
///       digests.xxh128    checksum and size of each of these files
///
/// In index.h5 (what a stage-S.h5 holds of it is linked there):
///
///     /                        attributes: format, format_version, model, dtype, update, epoch,
///                              optimizer, optimizer_steps, created, program
///     /plan /config /progress  JSON texts: the plan, the options, what the run had to tell so far
///     /shards/file, /layers    a row a layer, in the model's order: its name, the file that holds
///                              it
///     /model/LAYER/TENSOR      parameters after G updates, and running statistics
///     /versions/V/LAYER/TENSOR parameters after V updates, G - tau <= V < G, where a delayed stage
///                              still needs them
///     /optimizer/STATE/LAYER/TENSOR
///
/// Tensors are in PyTorch's order and the run's own type; each has an attribute `xxh128`, the
/// checksum of its elements. A folder that has no digests.xxh128, or the name step-N.partial, is a
/// checkpoint that was never completed.
namespace dynpipe::io {

/// A layer of the model, and where its tensors are.
struct CheckpointLayer {
  std::string name;
  std::string file;  ///< of the checkpoint's folder
};

/// What a checkpoint says of itself.
struct CheckpointFacts {
  std::string model;                   ///< its name
  std::string dtype;                   ///< "float32" or "float64"
  std::int64_t update = 0;             ///< G: updates made; the next update group is G
  std::int64_t epoch = 0;              ///< that it is in, from 0: G divided by groups an epoch
  std::string optimizer;               ///< "sgd"
  std::int64_t optimizer_steps = 0;    ///< since its state was fresh
  std::string created;                 ///< "2025-06-30T12:00:00Z"
  std::string program;                 ///< "dynpipe 0.1.0"
  std::string plan, config, progress;  ///< JSON
  std::vector<CheckpointLayer> layers;
};

/// A tensor of a shard, to be written from, or read into, memory of the host in plain layout.
struct CheckpointTensor {
  std::string path;  ///< "/model/conv1/weight"
  tensor::Tensor view;
};
std::string parameter_path(const std::string& layer, const std::string& name);
/// Of an older version.
std::string version_path(std::int64_t version, const std::string& layer, const std::string& name);
std::string optimizer_path(const std::string& state, const std::string& layer,
                           const std::string& name);

/// "step-400"
std::string checkpoint_name(std::int64_t update);
/// "stage-0.h5"
std::string shard_name(int stage);
constexpr const char* k_index_file = "index.h5";

// Writing. All of it throws RunError naming the file.

/// Where a checkpoint is written until it is complete: step-G.partial.
std::filesystem::path partial_checkpoint(const std::filesystem::path& folder, std::int64_t update);
/// Makes that folder, if another writer has not yet.
std::filesystem::path begin_checkpoint(const std::filesystem::path& folder, std::int64_t update);
/// Writes and syncs a shard; leaves no file where it fails.
FileDigest write_shard(const std::filesystem::path& file,
                       const std::vector<CheckpointTensor>& tensors);
/// Writes index and digests, syncs all and gives the checkpoint its name: from then on it is there,
/// whatever happens. Replaces a checkpoint of that name. `shards`: digest of each stage's file, by
/// name. Returns its size in bytes.
std::uint64_t complete_checkpoint(const std::filesystem::path& partial,
                                  const CheckpointFacts& facts, const FileDigests& shards);
/// Removes a checkpoint or a partial one, in such a way that none ever looks like one half there.
void remove_checkpoint(const std::filesystem::path& checkpoint);
/// Removes what runs that were killed left in a folder that no other run is using.
void remove_leftovers(const std::filesystem::path& folder);

// Reading. All of it throws InputError naming the file, and the field where there is one.

/// A checkpoint in a run's folder, by its name alone.
struct CheckpointName {
  std::int64_t update = 0;
  std::filesystem::path path;
};
/// All completed ones, oldest first; empty where there is no such folder.
std::vector<CheckpointName> list_checkpoints(const std::filesystem::path& folder);

/// A checkpoint itself, or the newest in a folder of them; a place that is neither comes back.
std::filesystem::path newest_checkpoint(const std::filesystem::path& place);

/// A completed checkpoint, read-only. Files are to be checked before anything is read from them:
/// the HDF5 library does not survive every damage.
class Checkpoint {
 public:
  /// Reads the digests, nothing else. Throws for what is no completed checkpoint.
  explicit Checkpoint(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const FileDigests& digests() const { return digests_; }
  std::uint64_t bytes() const;
  /// Whether a file is what was written.
  void check(const std::string& file) const { check_file(path_, file, digests_.at(file)); }
  /// All files.
  void check_all() const;

  /// What the index says; checks that file first.
  CheckpointFacts facts() const;
  /// Opens a checked file.
  File open(const std::string& file) const;

 private:
  std::filesystem::path path_;
  FileDigests digests_;
};

/// Reads a tensor of a shard into `tensor.view`, whose type and shape it must have, and compares
/// its checksum.
void read_tensor(const File& shard, const CheckpointTensor& tensor);

}  // namespace dynpipe::io
