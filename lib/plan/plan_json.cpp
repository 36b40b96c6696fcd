#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "model/object_reader.hpp"
#include "plan/plan.hpp"

namespace dynpipe::plan {
namespace {

using base::InputError;
using model::ObjectReader;
using nlohmann::json;

constexpr int k_no_warmup = -1;

template <typename Enum>
struct Named {
  Enum value;
  std::string_view name;
};

constexpr Named<Schedule> k_schedules[] = {{Schedule::gpipe, "gpipe"},
                                           {Schedule::one_f_one_b, "1f1b"},
                                           {Schedule::zb_h1, "zb-h1"},
                                           {Schedule::asynchronous, "async"}};
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

int layer_position(ObjectReader& reader, const std::string& field, const model::Model& model) {
  const std::string name = reader.required_string(field);
  const int position = model.find(name);
  if (position < 0)
    reader.refuse(field, fmt::format("'{}' is not a layer of {}", name, model.file));
  return position;
}

std::vector<double> read_shares(const ObjectReader& reader, const json& value, int replicas) {
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
  ObjectReader reader(object, file, fmt::format("stages[{}]", s));
  Stage stage;
  stage.first = layer_position(reader, "first", model);
  stage.last = layer_position(reader, "last", model);
  stage.ranks = reader.whole_numbers(reader.require("ranks"), "ranks");
  const json* owners = reader.find("owners");
  const json* shares = reader.find("shares");
  if (owners != nullptr && shares != nullptr) {
    reader.refuse("shares", "and owners say the same thing: give one of them");
  }
  if (owners != nullptr) {
    stage.owners = reader.whole_numbers(*owners, "owners");
  } else if (shares != nullptr) {
    stage.owners = spread_owners(read_shares(reader, *shares, stage.replicas()), microbatches);
  } else if (stage.replicas() > 0) {
    stage.owners = spread_owners(std::vector<double>(stage.ranks.size(), 1.0), microbatches);
  }
  if (reader.find("warmup") != nullptr) {
    stage.warmup = static_cast<int>(reader.required_int("warmup", 0));
  } else {
    stage.warmup = k_no_warmup;
  }
  stage.recompute = reader.optional_bool("recompute", false);
  reader.done();
  return stage;
}

void fill_in_warmups(Plan& plan, const std::string& file) {
  int given = 0;
  for (const Stage& stage : plan.stages) {
    given += stage.warmup != k_no_warmup ? 1 : 0;
  }
  if (given == plan.size()) return;  // also where there is no stage, which `validate` refuses
  if (given > 0) {
    throw InputError(file, "stages", "give every stage a warmup, or none");
  }
  const std::vector<int> warmups = default_warmups(plan.stages);
  for (std::size_t s = 0; s < warmups.size(); ++s) plan.stages[s].warmup = warmups[s];
}

}  // namespace

Plan parse_plan(std::string_view json_text, const std::string& file, const model::Model& model,
                int ranks) {
  const json document = model::parse_document(json_text, file);
  ObjectReader reader(document, file, "");
  if (const json* name = reader.find("model"); name != nullptr && *name != model.name) {
    reader.refuse("model", fmt::format("is {}, but the model is '{}'", name->dump(), model.name));
  }
  Plan plan;
  plan.schedule = schedule_named(reader.required_string("schedule"), file, "schedule");
  if (reader.find("weights") != nullptr) {
    plan.policy = policy_named(reader.required_string("weights"), file, "weights");
  }
  plan.microbatches = static_cast<int>(reader.required_int("microbatches", 1));
  if (plan.microbatches > k_most_microbatches) {
    reader.refuse("microbatches",
                  fmt::format("must be at most {}, is {}", k_most_microbatches, plan.microbatches));
  }
  const json& stages = reader.require("stages");
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
        R"(    {{"first": {}, "last": {}, "ranks": [{}], "owners": [{}], "warmup": {}{}}})",
        layer(stage.first), layer(stage.last), fmt::join(stage.ranks, ", "),
        fmt::join(stage.owners, ", "), stage.warmup,
        stage.recompute ? R"(, "recompute": true)" : ""));
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
