#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <numeric>

#include "base/errors.hpp"
#include "io/checkpoint.hpp"

namespace dynpipe::io {
namespace {

using base::InputError;
namespace fs = std::filesystem;

/// N of "step-N".
std::optional<std::int64_t> update_in(const std::string& name) {
  constexpr std::string_view k_prefix = "step-";
  if (!name.starts_with(k_prefix)) return std::nullopt;
  std::int64_t update = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + k_prefix.size(), end, update);
  if (read.ec != std::errc() || read.ptr != end || checkpoint_name(update) != name) {
    return std::nullopt;
  }
  return update;
}

std::string text_in(const File& file, const std::string& attribute) {
  const auto found = file.text_attribute("/", attribute);
  if (!found || found->size() != 1) {
    throw InputError(file.name(), attribute, "is missing or no single text");
  }
  return found->front();
}

std::int64_t whole_number_in(const File& file, const std::string& attribute) {
  const auto found = file.attribute("/", attribute);
  const bool fits = found && found->size() == 1 && found->front() >= 0 && found->front() < 9e15;
  if (!fits) throw InputError(file.name(), attribute, "is missing or no whole number from 0");
  return static_cast<std::int64_t>(found->front());
}

}  // namespace

std::vector<CheckpointName> list_checkpoints(const fs::path& folder) {
  std::vector<CheckpointName> found;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const auto update = update_in(entry.path().filename().string());
    if (update && entry.is_directory(error)) found.push_back({*update, entry.path()});
  }
  if (error) throw InputError(folder.string(), "", "cannot be read: " + error.message());
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.update < b.update; });
  return found;
}

fs::path newest_checkpoint(const fs::path& place) {
  std::error_code error;
  if (fs::exists(place / k_digests_file, error)) return place;
  const auto found = list_checkpoints(place);
  return found.empty() ? place : found.back().path;
}

Checkpoint::Checkpoint(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  if (!fs::is_directory(path_, error)) {
    throw InputError(path_.string(), "", "is no checkpoint: there is no such folder");
  }
  const fs::path file = path_ / k_digests_file;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw InputError(file.string(), "", "cannot be read: this checkpoint was never completed");
  }
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  digests_ = parse_digests(text, file.string());
  if (!digests_.contains(k_index_file)) {
    throw InputError(file.string(), k_index_file, "is not among its files");
  }
}

std::uint64_t Checkpoint::bytes() const {
  return std::accumulate(digests_.begin(), digests_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& f) { return sum + f.second.bytes; });
}

void Checkpoint::check_all() const {
  for (const auto& [file, digest] : digests_) check(file);
}

CheckpointFacts Checkpoint::facts() const {
  check(k_index_file);
  const File index = open(k_index_file);
  if (text_in(index, "format") != "dynpipe checkpoint") {
    throw InputError(index.name(), "format", "is not that of a checkpoint");
  }
  if (const std::int64_t version = whole_number_in(index, "format_version"); version != 1) {
    throw InputError(index.name(), "format_version",
                     fmt::format("is {}; this program reads 1", version));
  }
  CheckpointFacts facts;
  facts.model = text_in(index, "model");
  facts.dtype = text_in(index, "dtype");
  facts.update = whole_number_in(index, "update");
  facts.epoch = whole_number_in(index, "epoch");
  facts.optimizer = text_in(index, "optimizer");
  facts.optimizer_steps = whole_number_in(index, "optimizer_steps");
  facts.created = text_in(index, "created");
  facts.program = text_in(index, "program");
  facts.plan = index.text("/plan");
  facts.config = index.text("/config");
  facts.progress = index.text("/progress");
  const std::vector<std::string> names = index.dataset("/shards/layers").read_texts();
  const std::vector<std::string> files = index.dataset("/shards/file").read_texts();
  if (names.size() != files.size()) {
    throw InputError(index.name(), "/shards", "has unequal columns");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!digests_.contains(files[i])) {
      throw InputError(index.name(), "/shards/file",
                       fmt::format("names '{}', which has no digest", files[i]));
    }
    facts.layers.push_back({names[i], files[i]});
  }
  return facts;
}

File Checkpoint::open(const std::string& file) const {
  return File::open(path_ / file);
}

void read_tensor(const File& shard, const CheckpointTensor& tensor) {
  const Dataset dataset = shard.dataset(tensor.path);
  const bool wide = tensor.view.dtype == tensor::DType::float64;
  if (dataset.element() != (wide ? Element::float64 : Element::float32)) {
    throw InputError(shard.name(), tensor.path,
                     fmt::format("holds {}, not {}", name_of(dataset.element()),
                                 tensor::name_of(tensor.view.dtype)));
  }
  if (dataset.shape() != extent_of(tensor.view.shape)) {
    throw InputError(shard.name(), tensor.path,
                     fmt::format("has shape [{}], not {}", fmt::join(dataset.shape(), ","),
                                 tensor.view.shape.to_string()));
  }
  const auto elements = static_cast<std::size_t>(tensor.view.elements());
  if (wide) {
    dataset.read_into(std::span(tensor.view.as<double>(), elements));
  } else {
    dataset.read_into(std::span(tensor.view.as<float>(), elements));
  }
  const auto digest = shard.text_attribute(tensor.path, "xxh128");
  if (!digest || digest->size() != 1) {
    throw InputError(shard.name(), tensor.path, "has no checksum");
  }
  if (digest->front() != digest_of({tensor.view.data, tensor.view.bytes()})) {
    throw InputError(shard.name(), tensor.path,
                     "is damaged: its elements are not what was written");
  }
}

}  // namespace dynpipe::io
