#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dynpipe::model {

/// Typed access to the fields of a JSON object in a file that people write. Every refusal is an
/// InputError that names file, place and field; `done` refuses any field that nobody asked for, so
/// that a misspelt one is never ignored. Whole numbers are below 2^31 where nothing else is said.
/// The object must outlive the reader.
class ObjectReader {
 public:
  /// `where`: the object's place within the file; empty for the outermost. Throws InputError unless
  /// it is an object.
  ObjectReader(const nlohmann::json& object, std::string file, std::string where);

  /// The value of a field, or null where it is absent.
  const nlohmann::json* find(const std::string& field);
  const nlohmann::json& require(const std::string& field);
  std::int64_t required_int(const std::string& field, std::int64_t at_least);
  /// A count that may pass 2^31, such as of bytes; at most 2^53, to which JSON's numbers are exact.
  std::int64_t required_count(const std::string& field, std::int64_t at_least);
  /// In [at_least, below).
  double required_number(const std::string& field, double at_least, double below);
  double optional_number(const std::string& field, double fallback, double at_least, double below);
  bool optional_bool(const std::string& field, bool fallback);
  std::string required_string(const std::string& field);
  const nlohmann::json& required_array(const std::string& field);
  /// An array of counts, each as `required_count` takes it.
  std::vector<std::int64_t> required_counts(const std::string& field, std::int64_t at_least);
  /// An array of `size` numbers in [at_least, below).
  std::vector<double> required_numbers(const std::string& field, std::size_t size, double at_least,
                                       double below);
  /// An array of whole numbers, any sign; `value` is the field's.
  std::vector<int> whole_numbers(const nlohmann::json& value, const std::string& field) const;

  void done() const;
  [[noreturn]] void refuse(std::string_view field, std::string_view problem) const;

 protected:
  std::int64_t whole_number(const nlohmann::json& value, const std::string& field,
                            std::int64_t at_least) const;
  double number(const nlohmann::json& value, const std::string& field, double at_least,
                double below) const;
  /// Fields that were read elsewhere.
  void know(std::vector<std::string> fields) { known_ = std::move(fields); }
  const std::string& file() const { return file_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string file_;
  std::string where_;
  std::vector<std::string> known_;
};

/// The JSON document in a text. Throws InputError saying where it stops being JSON.
nlohmann::json parse_document(std::string_view text, const std::string& file);

/// A JSON value as a message shows it: on one line, cut where it is long.
std::string shown(const nlohmann::json& value);

}  // namespace dynpipe::model
