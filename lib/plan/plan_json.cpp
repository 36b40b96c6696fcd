#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "plan/plan.hpp"

namespace dynpipe::plan {
namespace {

using base::InputError;
using nlohmann::json;

template <typename Enum>
struct Named {
  Enum value;
  std::string_view name;
};

constexpr Named<Schedule> k_schedules[] = {
    {Schedule::gpipe, "gpipe"}, {Schedule::one_f_one_b, "1f1b"}, {Schedule::asynchronous, "async"}};
constexpr Named<WeightPolicy> k_policies[] = {{WeightPolicy::stash, "stash"},
                                              {WeightPolicy::double_buffer, "2bw"}};

template <typename Enum, std::size_t n>
std::string_view name_in(const Named<Enum> (&table)[n], Enum value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "?";
}

template <typename Enum, std::size_t n>
Enum value_in(const Named<Enum> (&table)[n], std::string_view name, const std::string& where,
              const std::string& field) {
  std::vector<std::string_view> known;
  for (const auto& row : table) {
    if (row.name == name) return row.value;
    known.push_back(row.name);
  }
  throw InputError(where, field,
                   fmt::format("'{}' is not known; known are {}", name, fmt::join(known, ", ")));
}

// Reads fields of one JSON object and refuses those that nobody asked for.
class Reader {
 public:
  Reader(const json& object, std::string file, std::string prefix)
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {
    if (!object.is_object()) {
      throw InputError(file_, prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1),
                       "must be an object {...}");
    }
  }

  const json* optional(const std::string& field) {
    known_.push_back(field);
    const auto found = object_.find(field);
    return found == object_.end() ? nullptr : &*found;
  }
  const json& required(const std::string& field) {
    const json* value = optional(field);
    if (value == nullptr) refuse(field, "is missing");
    return *value;
  }
  std::string text(const std::string& field) {
    const json& value = required(field);
    if (!value.is_string()) refuse(field, "must be a string");
    return value.get<std::string>();
  }
  int integer(const std::string& field, const json& value) const {
    if (!value.is_number_integer() || value < std::numeric_limits<int>::min() ||
        value > std::numeric_limits<int>::max()) {
      refuse(field, "must be an integer");
    }
    return value.get<int>();
  }
  std::vector<int> integers(const std::string& field, const json& value) const {
    if (!value.is_array()) refuse(field, "must be an array of integers");
    std::vector<int> result;
    for (const json& element : value) result.push_back(integer(field, element));
    return result;
  }
  void done() const {
    for (const auto& [field, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), field) == known_.end()) {
        refuse(field, fmt::format("is not a known field; known are {}", fmt::join(known_, ", ")));
      }
    }
  }
  [[noreturn]] void refuse(const std::string& field, const std::string& problem) const {
    throw InputError(file_, prefix_ + field, problem);
  }

 private:
  const json& object_;
  std::string file_, prefix_;
  std::vector<std::string> known_;
};

int layer_position(Reader& reader, const std::string& field, const model::Model& model) {
  const std::string name = reader.text(field);
  const int position = model.find(name);
  if (position < 0)
    reader.refuse(field, fmt::format("'{}' is not a layer of {}", name, model.file));
  return position;
}

std::vector<double> read_shares(const Reader& reader, const json& value, int replicas) {
  if (!value.is_array() || static_cast<int>(value.size()) != replicas) {
    reader.refuse("shares", fmt::format("must be an array of {} numbers, one a rank", replicas));
  }
  std::vector<double> shares;
  for (const json& element : value) {
    if (!element.is_number() || !std::isfinite(element.get<double>()) || element < 0) {
      reader.refuse("shares", "must be numbers of at least 0");
    }
    shares.push_back(element.get<double>());
  }
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; })) {
    reader.refuse("shares", "are all zero: nobody would compute the stage");
  }
  return shares;
}

Stage read_stage(const json& object, int s, const std::string& file, const model::Model& model,
                 int microbatches) {
  Reader reader(object, file, fmt::format("stages[{}].", s));
  Stage stage;
  stage.first = layer_position(reader, "first", model);
  stage.last = layer_position(reader, "last", model);
  stage.ranks = reader.integers("ranks", reader.required("ranks"));
  const json* owners = reader.optional("owners");
  const json* shares = reader.optional("shares");
  if (owners != nullptr && shares != nullptr) {
    reader.refuse("shares", "and owners say the same thing: give one of them");
  }
  if (owners != nullptr) {
    stage.owners = reader.integers("owners", *owners);
  } else if (shares != nullptr) {
    stage.owners = spread_owners(read_shares(reader, *shares, stage.replicas()), microbatches);
  } else if (stage.replicas() > 0) {
    stage.owners = spread_owners(std::vector<double>(stage.ranks.size(), 1.0), microbatches);
  }
  const json* warmup = reader.optional("warmup");
  stage.warmup = warmup == nullptr ? -1 : reader.integer("warmup", *warmup);
  if (warmup != nullptr && stage.warmup < 0) reader.refuse("warmup", "must be at least 0");
  reader.done();
  return stage;
}

void fill_in_warmups(Plan& plan, const std::string& file) {
  std::vector<int> replicas;
  int given = 0;
  for (const Stage& stage : plan.stages) {
    replicas.push_back(stage.replicas());
    given += stage.warmup >= 0 ? 1 : 0;
  }
  if (given == plan.size()) return;
  if (given > 0) {
    throw InputError(file, "stages", "give every stage a warmup, or none");
  }
  const std::vector<int> warmups = default_warmups(replicas);
  for (std::size_t s = 0; s < warmups.size(); ++s) plan.stages[s].warmup = warmups[s];
}

json parse_json(std::string_view text, const std::string& file) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    throw InputError(file, "", fmt::format("is not JSON: {}", error.what()));
  }
}

}  // namespace

Plan parse_plan(std::string_view json_text, const std::string& file, const model::Model& model,
                int ranks) {
  const json document = parse_json(json_text, file);
  Reader reader(document, file, "");
  if (const json* name = reader.optional("model"); name != nullptr && *name != model.name) {
    reader.refuse("model", fmt::format("is {}, but the model is '{}'", name->dump(), model.name));
  }
  Plan plan;
  plan.schedule = schedule_named(reader.text("schedule"), file, "schedule");
  if (reader.optional("weights") != nullptr) {
    plan.policy = policy_named(reader.text("weights"), file, "weights");
  }
  plan.microbatches = reader.integer("microbatches", reader.required("microbatches"));
  if (plan.microbatches < 1 || plan.microbatches > 1'000'000) {
    reader.refuse("microbatches", fmt::format("must be 1 to 1000000, is {}", plan.microbatches));
  }
  const json& stages = reader.required("stages");
  if (!stages.is_array()) reader.refuse("stages", "must be an array");
  for (const json& stage : stages) {
    plan.stages.push_back(read_stage(stage, plan.size(), file, model, plan.microbatches));
  }
  reader.done();
  fill_in_warmups(plan, file);
  validate(plan, model, ranks, file);
  return plan;
}

std::string to_json(const Plan& plan, const model::Model& model) {
  const auto layer = [&](int position) {
    return json(model.layers[static_cast<std::size_t>(position)].spec.name).dump();
  };
  std::vector<std::string> lines;
  for (const Stage& stage : plan.stages) {
    lines.push_back(fmt::format(
        R"(    {{"first": {}, "last": {}, "ranks": [{}], "owners": [{}], "warmup": {}}})",
        layer(stage.first), layer(stage.last), fmt::join(stage.ranks, ", "),
        fmt::join(stage.owners, ", "), stage.warmup));
  }
  return fmt::format(
      "{{\n  \"model\": {},\n  \"schedule\": \"{}\",\n  \"weights\": \"{}\",\n"
      "  \"microbatches\": {},\n  \"stages\": [\n{}\n  ]\n}}\n",
      json(model.name).dump(), name_of(plan.schedule), name_of(plan.policy), plan.microbatches,
      fmt::join(lines, ",\n"));
}

std::string_view name_of(Schedule schedule) {
  return name_in(k_schedules, schedule);
}
std::string_view name_of(WeightPolicy policy) {
  return name_in(k_policies, policy);
}

Schedule schedule_named(std::string_view name, const std::string& where, const std::string& field) {
  return value_in(k_schedules, name, where, field);
}
WeightPolicy policy_named(std::string_view name, const std::string& where,
                          const std::string& field) {
  return value_in(k_policies, name, where, field);
}

}  // namespace dynpipe::plan
