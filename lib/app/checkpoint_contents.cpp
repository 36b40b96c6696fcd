#include "app/checkpoint_contents.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/run_progress.hpp"
#include "base/errors.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;
namespace fs = std::filesystem;

/// What a check of a checkpoint has found so far.
class Findings {
 public:
  /// Whether the action found nothing wrong.
  bool run(const std::function<void()>& action) {
    try {
      action();
      return true;
    } catch (const InputError& error) {
      problems_.emplace_back(error.what());
      return false;
    }
  }
  std::vector<std::string> take() { return std::move(problems_); }

 private:
  std::vector<std::string> problems_;
};

void check_size(const io::Checkpoint& checkpoint, const std::string& name) {
  const fs::path file = checkpoint.path() / name;
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) throw InputError(file.string(), "", "cannot be read: " + error.message());
  const std::uint64_t written = checkpoint.digests().at(name).bytes;
  if (bytes == written) return;
  throw InputError(file.string(), "",
                   fmt::format("is damaged: it has {} bytes, {} were written", bytes, written));
}

/// The texts of an index are what they should be.
io::CheckpointFacts check_facts(const io::Checkpoint& checkpoint) {
  io::CheckpointFacts facts = checkpoint.facts();
  const std::string file = (checkpoint.path() / io::k_index_file).string();
  parse_run_progress(facts.progress, file);
  model::parse_document(facts.plan, file + ": /plan");
  model::parse_document(facts.config, file + ": /config");
  if (checkpoint.path().filename().string().starts_with("step-") &&
      io::checkpoint_name(facts.update) != checkpoint.path().filename()) {
    throw InputError(file, "update", fmt::format("is {}, unlike the folder's name", facts.update));
  }
  return facts;
}

void check_tensors(const io::File& shard, Findings& findings) {
  for (const std::string& group : layer_groups(shard)) {
    for (const std::string& layer : shard.children(group)) {
      for (const std::string& name : shard.children(group + "/" + layer)) {
        findings.run([&] {
          const std::string path = fmt::format("{}/{}/{}", group, layer, name);
          read_checked(shard, describe_tensor(shard.dataset(path)));
        });
      }
    }
  }
}

/// The index shows every tensor of a layer's shard.
void check_links(const io::File& index, const io::File& shard, const std::string& layer) {
  for (const std::string& group : layer_groups(shard)) {
    for (const std::string& name : shard.children(fmt::format("{}/{}", group, layer))) {
      const std::string path = fmt::format("{}/{}/{}", group, layer, name);
      if (!index.has(path)) throw InputError(index.name(), path, "is missing");
    }
  }
}

void check_contents(const io::CheckpointFacts& facts, const std::map<std::string, io::File>& whole,
                    Findings& findings) {
  for (const auto& [name, file] : whole) {
    if (name != io::k_index_file) check_tensors(file, findings);
  }
  const auto index = whole.find(io::k_index_file);
  if (index == whole.end()) return;
  for (const io::CheckpointLayer& layer : facts.layers) {
    const auto shard = whole.find(layer.file);
    if (shard == whole.end()) continue;
    findings.run([&] { check_links(index->second, shard->second, layer.name); });
  }
}

}  // namespace

ShardTensor describe_tensor(const io::Dataset& dataset) {
  const io::Extent& extent = dataset.shape();
  if (extent.size() > base::Shape::k_max_rank) {
    throw InputError(dataset.file(), dataset.path(),
                     fmt::format("has {} dimensions; tensors have four at most", extent.size()));
  }
  const bool wide = dataset.element() == io::Element::float64;
  if (!wide && dataset.element() != io::Element::float32) {
    throw InputError(dataset.file(), dataset.path(),
                     fmt::format("holds {}, not float32 or float64", name_of(dataset.element())));
  }
  return {dataset.path(), wide ? tensor::DType::float64 : tensor::DType::float32,
          base::Shape(std::vector<std::int64_t>(extent.begin(), extent.end()))};
}

std::vector<std::string> layer_groups(const io::File& shard) {
  std::vector<std::string> groups;
  if (shard.has("/model")) groups.emplace_back("/model");
  for (const char* const parent : {"/versions", "/optimizer"}) {
    for (const std::string& name : shard.children(parent)) {
      groups.push_back(fmt::format("{}/{}", parent, name));
    }
  }
  return groups;
}

std::vector<std::byte> read_checked(const io::File& shard, const ShardTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.shape.elements()) *
                               tensor::size_of(tensor.dtype));
  io::read_tensor(shard,
                  {tensor.path, {bytes.data(), tensor.dtype, tensor::Layout::plain, tensor.shape}});
  return bytes;
}

std::string size_text(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  for (const auto& [unit, name] : {std::pair{1e9, "GB"}, std::pair{1e6, "MB"}}) {
    if (number >= unit) return fmt::format("{:.2f} {}", number / unit, name);
  }
  return fmt::format("{:.2f} kB", number / 1e3);
}

std::vector<std::string> problems_of(const fs::path& path, bool all) {
  Findings findings;
  std::optional<io::Checkpoint> checkpoint;
  if (!findings.run([&] { checkpoint.emplace(path); })) return findings.take();
  io::CheckpointFacts facts;
  std::map<std::string, io::File> whole;
  for (const auto& [name, digest] : checkpoint->digests()) {
    const std::string& file = name;
    const bool good = findings.run([&] {
      check_size(*checkpoint, file);
      if (all && file != io::k_index_file) checkpoint->check(file);
      if (file == io::k_index_file) facts = check_facts(*checkpoint);
    });
    if (good && all) findings.run([&] { whole.emplace(file, checkpoint->open(file)); });
  }
  if (all) check_contents(facts, whole, findings);
  return findings.take();
}

}  // namespace dynpipe::app
