#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <system_error>

#include "base/errors.hpp"
#include "io/checkpoint.hpp"
#include "io/durable.hpp"

namespace dynpipe::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& what, const std::error_code& error) {
  throw base::RunError(fmt::format("{}: cannot be written: {}", what.string(), error.message()));
}

/// The disk works while the rest is being written.
constexpr std::size_t k_head_start_bytes = std::size_t{32} << 20U;

/// In pieces, so that others who wait for the library wait for one of them at most.
template <typename T>
void write_in_pieces(Dataset& dataset, const tensor::Tensor& view) {
  constexpr std::uint64_t k_piece_bytes = std::uint64_t{4} << 20U;
  const Extent& shape = dataset.shape();
  const std::span<const T> values(view.as<T>(), static_cast<std::size_t>(view.elements()));
  if (shape.empty() || values.empty()) return dataset.write_all(values);
  const std::uint64_t row = values.size() / shape[0];
  const std::uint64_t rows = std::max<std::uint64_t>(1, k_piece_bytes / (row * sizeof(T)));
  for (std::uint64_t first = 0; first < shape[0]; first += rows) {
    const std::uint64_t count = std::min(rows, shape[0] - first);
    dataset.write_rows(first, count, values.subspan(first * row, count * row));
  }
}

void write_tensor(File& file, const CheckpointTensor& tensor) {
  const bool wide = tensor.view.dtype == tensor::DType::float64;
  DatasetLayout layout;
  layout.element = wide ? Element::float64 : Element::float32;
  layout.shape = extent_of(tensor.view.shape);
  Dataset dataset = file.create_dataset(tensor.path, layout);
  if (wide) {
    write_in_pieces<double>(dataset, tensor.view);
  } else {
    write_in_pieces<float>(dataset, tensor.view);
  }
  file.set_attribute(tensor.path, "xxh128", digest_of({tensor.view.data, tensor.view.bytes()}));
}

/// Shows in the index what the shards hold: each layer of each group of tensors is a link.
void link_layers(File& index, const CheckpointFacts& facts, const fs::path& folder) {
  for (const CheckpointLayer& layer : facts.layers) {
    const File shard = File::open(folder / layer.file);
    std::vector<std::string> parents{"/model"};
    for (const char* const group : {"/versions", "/optimizer"}) {
      for (const std::string& name : shard.children(group)) {
        parents.push_back(fmt::format("{}/{}", group, name));
      }
    }
    for (const std::string& parent : parents) {
      const std::string path = fmt::format("{}/{}", parent, layer.name);
      if (shard.has(path)) index.link_to(path, layer.file, path);
    }
  }
}

void write_index(const fs::path& folder, const CheckpointFacts& facts) {
  File index = File::create(folder / k_index_file);
  index.set_attribute("/", "format", std::string("dynpipe checkpoint"));
  index.set_attribute("/", "format_version", std::int64_t{1});
  index.set_attribute("/", "model", facts.model);
  index.set_attribute("/", "dtype", facts.dtype);
  index.set_attribute("/", "update", facts.update);
  index.set_attribute("/", "epoch", facts.epoch);
  index.set_attribute("/", "optimizer", facts.optimizer);
  index.set_attribute("/", "optimizer_steps", facts.optimizer_steps);
  index.set_attribute("/", "created", facts.created);
  index.set_attribute("/", "program", facts.program);
  index.write_text("/plan", facts.plan);
  index.write_text("/config", facts.config);
  index.write_text("/progress", facts.progress);
  std::vector<std::string> names, files;
  for (const CheckpointLayer& layer : facts.layers) {
    names.push_back(layer.name);
    files.push_back(layer.file);
  }
  index.write_texts("/shards/layers", names);
  index.write_texts("/shards/file", files);
  link_layers(index, facts, folder);
  index.close();
}

fs::path without_extension(const fs::path& partial) {
  fs::path path = partial;
  return path.replace_extension();
}

}  // namespace

std::string parameter_path(const std::string& layer, const std::string& name) {
  return fmt::format("/model/{}/{}", layer, name);
}

std::string version_path(std::int64_t version, const std::string& layer, const std::string& name) {
  return fmt::format("/versions/{}/{}/{}", version, layer, name);
}

std::string optimizer_path(const std::string& state, const std::string& layer,
                           const std::string& name) {
  return fmt::format("/optimizer/{}/{}/{}", state, layer, name);
}

std::string checkpoint_name(std::int64_t update) {
  return fmt::format("step-{}", update);
}

std::string shard_name(int stage) {
  return fmt::format("stage-{}.h5", stage);
}

fs::path partial_checkpoint(const fs::path& folder, std::int64_t update) {
  return folder / (checkpoint_name(update) + ".partial");
}

fs::path begin_checkpoint(const fs::path& folder, std::int64_t update) {
  fs::path partial = partial_checkpoint(folder, update);
  std::error_code error;
  fs::create_directories(partial, error);
  if (error) fail(partial, error);
  return partial;
}

FileDigest write_shard(const fs::path& file, const std::vector<CheckpointTensor>& tensors) {
  try {
    File shard = File::create(file);
    std::size_t waiting_bytes = 0;
    for (const CheckpointTensor& tensor : tensors) {
      write_tensor(shard, tensor);
      waiting_bytes += tensor.view.bytes();
      if (waiting_bytes < k_head_start_bytes) continue;
      start_sync(file);
      waiting_bytes = 0;
    }
    shard.close();
    start_sync(file);
    FileDigest written{digest_of_file(file), fs::file_size(file)};
    sync_file(file);
    return written;
  } catch (const base::InputError& failure) {  // it was written but can't be read
    throw base::RunError(failure.what());
  } catch (const base::RunError&) {
    std::error_code ignored;
    fs::remove(file, ignored);
    throw;
  }
}

std::uint64_t complete_checkpoint(const fs::path& partial, const CheckpointFacts& facts,
                                  const FileDigests& shards) {
  FileDigests files = shards;
  try {
    write_index(partial, facts);
    const fs::path index = partial / k_index_file;
    files[k_index_file] = {digest_of_file(index), fs::file_size(index)};
    sync_file(index);
  } catch (const base::InputError& failure) {
    throw base::RunError(failure.what());
  }
  write_durably(partial / k_digests_file, to_text(files));
  sync_folder(partial);

  const fs::path complete = without_extension(partial);
  std::error_code error;
  if (fs::exists(complete)) remove_checkpoint(complete);
  fs::rename(partial, complete, error);
  if (error) fail(complete, error);
  sync_folder(complete.parent_path());
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& f) { return sum + f.second.bytes; });
}

void remove_checkpoint(const fs::path& checkpoint) {
  fs::path doomed = checkpoint;
  doomed += ".removed";
  std::error_code error;
  fs::remove_all(doomed, error);
  if (!error) fs::rename(checkpoint, doomed, error);
  if (!error) fs::remove_all(doomed, error);
  if (error) fail(checkpoint, error);
}

void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string ending = entry.path().extension().string();
    const bool ours = entry.path().stem().string().starts_with("step-");
    if (!ours || (ending != ".partial" && ending != ".removed")) continue;
    std::error_code failure;
    fs::remove_all(entry.path(), failure);
    if (failure) fail(entry.path(), failure);
  }
}

}  // namespace dynpipe::io
