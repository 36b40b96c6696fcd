#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "model/field_reader.hpp"
#include "model/object_reader.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::planner {
namespace {

using model::ObjectReader;
using nlohmann::json;

constexpr std::size_t k_most_ends = 65536;
constexpr double k_no_bound = std::numeric_limits<double>::infinity();

double positive(ObjectReader& reader, const std::string& field, double fallback) {
  const double number = reader.optional_number(field, fallback, 0, k_no_bound);
  if (number == 0) reader.refuse(field, "must be above 0, is 0");
  return number;
}

/// Numbers of things by their names.
class Names {
 public:
  /// Throws InputError where the name is none, or taken.
  void add(const ObjectReader& reader, const std::string& field, const std::string& name) {
    const std::string problem = model::problem_with_name(name);
    if (!problem.empty()) reader.refuse(field, problem);
    if (!numbers_.emplace(name, static_cast<int>(numbers_.size())).second) {
      reader.refuse(field, fmt::format("'{}' is there twice", name));
    }
  }
  /// The number of a thing, or -1.
  int find(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? -1 : found->second;
  }

 private:
  std::map<std::string, int, std::less<>> numbers_;
};

ClusterRank read_rank(const json& object, const std::string& file, std::size_t index,
                      Names& names) {
  ObjectReader reader(object, file, fmt::format("ranks[{}]", index));
  ClusterRank rank;
  rank.name = reader.required_string("name");
  names.add(reader, "name", rank.name);
  rank.slowdown = positive(reader, "slowdown", 1);
  if (reader.find("memory_bytes") != nullptr) {
    rank.memory_bytes = reader.required_count("memory_bytes", 1);
  }
  reader.done();
  return rank;
}

int end_named(ObjectReader& reader, const std::string& field, const Names& ends) {
  const std::string name = reader.required_string(field);
  const int end = ends.find(name);
  if (end < 0) reader.refuse(field, fmt::format("'{}' is neither a rank nor a switch", name));
  return end;
}

ClusterLink read_link(const json& object, const std::string& file, std::size_t index,
                      const Names& ends, Names& names) {
  ObjectReader reader(object, file, fmt::format("links[{}]", index));
  ClusterLink link;
  link.from = end_named(reader, "from", ends);
  link.to = end_named(reader, "to", ends);
  if (link.from == link.to) reader.refuse("to", "is where the link comes from");
  link.name = reader.find("name") != nullptr ? reader.required_string("name")
                                             : fmt::format("{}-{}", reader.required_string("from"),
                                                           reader.required_string("to"));
  names.add(reader, "name", link.name);
  link.latency_s = reader.required_number("latency_s", 0, k_no_bound);
  reader.require("bytes_per_s");
  link.bytes_per_s = positive(reader, "bytes_per_s", 1);
  link.full_duplex = reader.optional_bool("full_duplex", true);
  link.overlap = reader.optional_number("overlap", 1, 0, std::nextafter(1.0, 2.0));
  reader.done();
  return link;
}

Interference read_event(const json& object, const std::string& file, std::size_t index,
                        const Names& ranks, const Names& links) {
  ObjectReader reader(object, file, fmt::format("events[{}]", index));
  const bool of_rank = reader.find("rank") != nullptr;
  if (of_rank == (reader.find("link") != nullptr)) {
    reader.refuse(of_rank ? "link" : "rank", "an event is of one rank or of one link");
  }
  const std::string field = of_rank ? "rank" : "link";
  const std::string name = reader.required_string(field);
  Interference event;
  event.of = of_rank ? Interference::Of::rank : Interference::Of::link;
  event.index = (of_rank ? ranks : links).find(name);
  if (event.index < 0) reader.refuse(field, fmt::format("there is no {} '{}'", field, name));
  event.start_s = reader.required_number("start_s", 0, k_no_bound);
  event.end_s = reader.required_number("end_s", 0, k_no_bound);
  if (event.end_s <= event.start_s) {
    reader.refuse("end_s",
                  fmt::format("must be after start_s {}, is {}", event.start_s, event.end_s));
  }
  event.slowdown = reader.required_number("slowdown", 1, k_no_bound);
  reader.done();
  return event;
}

/// Refuses events of one rank or link that overlap.
void check_events(const ObjectReader& reader, const std::vector<Interference>& events) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < events.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::tuple(events[i].of, events[i].index, events[i].start_s);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Interference& before = events[order[i - 1]];
    const Interference& event = events[order[i]];
    if (event.of == before.of && event.index == before.index && event.start_s < before.end_s) {
      reader.refuse(
          fmt::format("events[{}]", order[i]),
          fmt::format("begins at {} s, before events[{}] of the same {} ends", event.start_s,
                      order[i - 1], event.of == Interference::Of::rank ? "rank" : "link"));
    }
  }
}

/// Refuses ranks that no message from rank 0 reaches.
void check_reach(const ObjectReader& reader, const Cluster& cluster) {
  std::vector<std::vector<int>> next(cluster.ranks.size() + cluster.switches.size());
  for (const ClusterLink& link : cluster.links) {
    next[static_cast<std::size_t>(link.from)].push_back(link.to);
    next[static_cast<std::size_t>(link.to)].push_back(link.from);
  }
  std::vector<bool> reached(next.size(), false);
  std::vector<int> open{0};
  reached[0] = true;
  while (!open.empty()) {
    const int end = open.back();
    open.pop_back();
    for (int other : next[static_cast<std::size_t>(end)]) {
      if (reached[static_cast<std::size_t>(other)]) continue;
      reached[static_cast<std::size_t>(other)] = true;
      open.push_back(other);
    }
  }
  for (std::size_t rank = 0; rank < cluster.ranks.size(); ++rank) {
    if (reached[rank]) continue;
    reader.refuse("links", fmt::format("no way leads from rank '{}' to rank '{}'",
                                       cluster.ranks[0].name, cluster.ranks[rank].name));
  }
}

void read_ends(ObjectReader& reader, const std::string& file, Cluster& cluster, Names& ranks,
               Names& ends) {
  for (const json& object : reader.required_array("ranks")) {
    cluster.ranks.push_back(read_rank(object, file, cluster.ranks.size(), ends));
    ranks.add(reader, "ranks", cluster.ranks.back().name);
  }
  if (cluster.ranks.empty()) reader.refuse("ranks", "is empty");
  if (reader.find("switches") != nullptr) {
    for (const json& name : reader.required_array("switches")) {
      const std::string field = fmt::format("switches[{}]", cluster.switches.size());
      if (!name.is_string()) reader.refuse(field, "must be a string, is " + model::shown(name));
      cluster.switches.push_back(name.get<std::string>());
      ends.add(reader, field, cluster.switches.back());
    }
  }
  if (cluster.ranks.size() + cluster.switches.size() > k_most_ends) {
    reader.refuse("ranks", fmt::format("and switches must be at most {} together", k_most_ends));
  }
}

Waiting read_waiting(const json& object, const std::string& file) {
  ObjectReader reader(object, file, "waiting");
  Waiting waiting;
  waiting.spin_s = reader.required_number("spin_s", 0, k_no_bound);
  waiting.nap_s = reader.required_number("nap_s", 0, k_no_bound);
  waiting.longest_nap_s = reader.required_number("longest_nap_s", waiting.nap_s, k_no_bound);
  reader.done();
  return waiting;
}

}  // namespace

Cluster parse_cluster(std::string_view json_text, const std::string& file) {
  const json document = model::parse_document(json_text, file);
  ObjectReader reader(document, file, "");
  Cluster cluster;
  cluster.name = reader.required_string("name");
  Names ranks, ends, links;
  read_ends(reader, file, cluster, ranks, ends);
  for (const json& object : reader.required_array("links")) {
    cluster.links.push_back(read_link(object, file, cluster.links.size(), ends, links));
  }
  if (reader.find("events") != nullptr) {
    for (const json& object : reader.required_array("events")) {
      cluster.events.push_back(read_event(object, file, cluster.events.size(), ranks, links));
    }
  }
  if (const json* waiting = reader.find("waiting")) cluster.waiting = read_waiting(*waiting, file);
  cluster.jitter = reader.optional_number("jitter", 0, 0, 1);
  reader.done();
  check_events(reader, cluster.events);
  check_reach(reader, cluster);
  return cluster;
}

std::string to_json(const Cluster& cluster) {
  const auto quoted = [](const std::string& text) { return json(text).dump(); };
  const auto end_name = [&](int end) {
    const auto at = static_cast<std::size_t>(end);
    return quoted(at < cluster.ranks.size() ? cluster.ranks[at].name
                                            : cluster.switches[at - cluster.ranks.size()]);
  };
  std::vector<std::string> ranks, switches, links, events;
  for (const ClusterRank& rank : cluster.ranks) {
    std::string line =
        fmt::format(R"(    {{"name": {}, "slowdown": {})", quoted(rank.name), rank.slowdown);
    if (rank.memory_bytes != ClusterRank{}.memory_bytes) {
      line += fmt::format(R"(, "memory_bytes": {})", rank.memory_bytes);
    }
    ranks.push_back(line + "}");
  }
  for (const std::string& name : cluster.switches) switches.push_back(quoted(name));
  for (const ClusterLink& link : cluster.links) {
    links.push_back(fmt::format(
        R"(    {{"name": {}, "from": {}, "to": {}, "latency_s": {}, "bytes_per_s": {}{}{}}})",
        quoted(link.name), end_name(link.from), end_name(link.to), link.latency_s, link.bytes_per_s,
        link.full_duplex ? "" : R"(, "full_duplex": false)",
        link.overlap == 1 ? "" : fmt::format(R"(, "overlap": {})", link.overlap)));
  }
  for (const Interference& event : cluster.events) {
    const bool of_rank = event.of == Interference::Of::rank;
    const auto at = static_cast<std::size_t>(event.index);
    events.push_back(fmt::format(R"(    {{"{}": {}, "start_s": {}, "end_s": {}, "slowdown": {}}})",
                                 of_rank ? "rank" : "link",
                                 quoted(of_rank ? cluster.ranks[at].name : cluster.links[at].name),
                                 event.start_s, event.end_s, event.slowdown));
  }
  std::string text = fmt::format(
      "{{\n  \"name\": {},\n  \"ranks\": [\n{}\n  ],\n  \"switches\": [{}],\n  \"links\": "
      "[\n{}\n  ]",
      quoted(cluster.name), fmt::join(ranks, ",\n"), fmt::join(switches, ", "),
      fmt::join(links, ",\n"));
  if (!events.empty()) {
    text += fmt::format(",\n  \"events\": [\n{}\n  ]", fmt::join(events, ",\n"));
  }
  if (cluster.waiting.nap_s > 0) {
    text +=
        fmt::format(",\n  \"waiting\": {{\"spin_s\": {}, \"nap_s\": {}, \"longest_nap_s\": {}}}",
                    cluster.waiting.spin_s, cluster.waiting.nap_s, cluster.waiting.longest_nap_s);
  }
  return text + fmt::format(",\n  \"jitter\": {}\n}}\n", cluster.jitter);
}

}  // namespace dynpipe::planner
