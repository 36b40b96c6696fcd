#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "base/errors.hpp"
#include "io/durable.hpp"
#include "io/safetensors.hpp"

namespace dynpipe::io {
namespace {

using nlohmann::ordered_json;

Element element_named(const std::string& dtype) {
  if (dtype == "F64") return Element::float64;
  if (dtype == "F32") return Element::float32;
  if (dtype == "I64") return Element::int64;
  throw std::logic_error("no tensors of type " + dtype + " are written");
}

std::uint64_t bytes_of(const SafetensorsPlan& tensor) {
  const std::uint64_t bytes = element_named(tensor.dtype) == Element::float32 ? 4 : 8;
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), bytes, std::multiplies<>());
}

/// Padded so that the data begin at a multiple of 8 bytes.
std::string header_of(const std::vector<SafetensorsPlan>& tensors,
                      const SafetensorsMetadata& metadata) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const SafetensorsPlan& tensor : tensors) {
    const std::uint64_t end = at + bytes_of(tensor);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     const std::vector<SafetensorsPlan>& tensors,
                                     const SafetensorsMetadata& metadata)
    : file_(file), partial_(file), left_(tensors.rbegin(), tensors.rend()) {
  partial_ += ".partial";
  stream_.reset(std::fopen(partial_.c_str(), "wb"));
  if (!stream_) fail(errno);
  const std::string header = header_of(tensors, metadata);
  const std::uint64_t length = header.size();
  if (std::fwrite(&length, sizeof length, 1, stream_.get()) != 1 ||
      std::fwrite(header.data(), 1, header.size(), stream_.get()) != header.size()) {
    fail(errno);
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (stream_) discard();
}

void SafetensorsWriter::discard() {
  stream_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void SafetensorsWriter::fail(int error) {
  discard();
  throw base::RunError(fmt::format("{}: cannot be written: {}", file_.string(),
                                   std::generic_category().message(error)));
}

void SafetensorsWriter::write(Element element, std::span<const std::byte> bytes) {
  if (left_.empty() || element_named(left_.back().dtype) != element ||
      bytes_of(left_.back()) != bytes.size()) {
    throw std::logic_error("a tensor that was not announced so");
  }
  left_.pop_back();
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) != bytes.size()) fail(errno);
}

void SafetensorsWriter::complete() {
  if (!left_.empty()) throw std::logic_error("tensors that were announced are missing");
  if (std::fflush(stream_.get()) != 0) fail(errno);
  sync_file(partial_);
  std::error_code error;
  std::filesystem::rename(partial_, file_, error);
  if (error) fail(error.value());
  stream_.reset();
}

}  // namespace dynpipe::io
