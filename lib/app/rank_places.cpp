#include "app/rank_places.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "probe/number_list.hpp"

namespace dynpipe::app {
namespace {

using nlohmann::json;

json from(std::optional<int> number) {
  return number ? json(*number) : json();
}

std::optional<int> number_in(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int>());
}

}  // namespace

std::string pack(const probe::RankPlace& place) {
  json cpus = json::array();
  for (const probe::Cpu& cpu : place.cpus) cpus.push_back({cpu.id, cpu.core, cpu.node});
  json text = {{"rank", place.rank},
               {"host", place.host},
               {"cpus", cpus},
               {"host_cores", place.host_cores},
               {"quota", {}},
               {"asked", from(place.asked_threads)},
               {"slurm", from(place.slurm_cpus)},
               {"threads", place.threads}};
  if (place.quota) text["quota"] = {place.quota->value, place.quota->folder};
  return text.dump();
}

probe::RankPlace unpack_place(const std::string& text) {
  const json from = json::parse(text);
  probe::RankPlace place;
  place.rank = from["rank"];
  place.host = from["host"];
  for (const json& cpu : from["cpus"]) place.cpus.push_back({cpu[0], cpu[1], cpu[2]});
  place.host_cores = from["host_cores"];
  if (!from["quota"].is_null()) place.quota = {from["quota"][0], from["quota"][1]};
  place.asked_threads = number_in(from["asked"]);
  place.slurm_cpus = number_in(from["slurm"]);
  place.threads = from["threads"];
  return place;
}

std::vector<probe::RankPlace> share_places(comm::World& world, std::optional<int> asked_threads) {
  const probe::RankPlace own =
      probe::own_place(world.rank(), world.host(), asked_threads, probe::read_text);
  const json all = json::parse(world.broadcast(json(world.gather(pack(own))).dump()));
  std::vector<probe::RankPlace> places;
  for (const json& text : all) places.push_back(unpack_place(text));
  probe::choose_threads(places);
  return places;
}

std::string describe_places(const std::vector<probe::RankPlace>& places) {
  std::string text = "rank  host             cores            NUMA node  threads\n";
  for (const probe::RankPlace& place : places) {
    std::vector<int> ids;
    for (const probe::Cpu& cpu : place.cpus) ids.push_back(cpu.id);
    text += fmt::format("{:>4}  {:<15}  {:<15}  {:>9}  {:>7}\n", place.rank,
                        place.host.substr(0, 15), ids.empty() ? "?" : probe::number_list(ids),
                        ids.empty() ? "?" : probe::number_list(probe::nodes_of(place.cpus)),
                        place.threads);
  }
  return text;
}

}  // namespace dynpipe::app
