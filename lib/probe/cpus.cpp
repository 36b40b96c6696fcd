#include "probe/cpus.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <sstream>

#include "probe/number_list.hpp"

namespace dynpipe::probe {
namespace {

constexpr const char* k_cpus = "/sys/devices/system/cpu";
constexpr const char* k_nodes = "/sys/devices/system/node";

std::vector<int> list_in(const ReadText& read, const std::string& path) {
  const auto text = read(path);
  return text ? parse_number_list(*text).value_or(std::vector<int>{}) : std::vector<int>{};
}

std::map<int, int> node_of_each_cpu(const ReadText& read) {
  std::map<int, int> nodes;
  for (int node : list_in(read, fmt::format("{}/online", k_nodes))) {
    for (int cpu : list_in(read, fmt::format("{}/node{}/cpulist", k_nodes, node))) {
      nodes[cpu] = node;
    }
  }
  return nodes;
}

std::vector<int> sorted_once(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first);
}

}  // namespace

std::vector<Cpu> online_cpus(const ReadText& read) {
  const std::map<int, int> nodes = node_of_each_cpu(read);
  std::vector<Cpu> cpus;
  for (int id : list_in(read, fmt::format("{}/online", k_cpus))) {
    const auto siblings =
        list_in(read, fmt::format("{}/cpu{}/topology/thread_siblings_list", k_cpus, id));
    const auto node = nodes.find(id);
    cpus.push_back(
        {id, siblings.empty() ? id : siblings.front(), node == nodes.end() ? 0 : node->second});
  }
  return cpus;
}

std::vector<int> allowed_cpus() {
  // The kernel refuses masks that are shorter than its own.
  for (int most = 1024; most <= 1 << 16; most *= 4) {
    std::vector<cpu_set_t> mask(static_cast<std::size_t>(most / CPU_SETSIZE));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) != 0) {
      if (errno == EINVAL) continue;
      return {};
    }
    std::vector<int> ids;
    for (int id = 0; id < most; ++id) {
      if (CPU_ISSET_S(static_cast<std::size_t>(id), bytes, mask.data())) ids.push_back(id);
    }
    return ids;
  }
  return {};
}

std::vector<Cpu> with_ids(const std::vector<Cpu>& cpus, const std::vector<int>& ids) {
  std::vector<Cpu> some;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(some), [&](const Cpu& cpu) {
    return std::find(ids.begin(), ids.end(), cpu.id) != ids.end();
  });
  return some;
}

std::vector<int> cores_of(const std::vector<Cpu>& cpus) {
  std::vector<int> cores;
  for (const Cpu& cpu : cpus) cores.push_back(cpu.core);
  return sorted_once(std::move(cores));
}

std::vector<int> nodes_of(const std::vector<Cpu>& cpus) {
  std::vector<int> nodes;
  for (const Cpu& cpu : cpus) nodes.push_back(cpu.node);
  return sorted_once(std::move(nodes));
}

int core_count(const std::vector<Cpu>& cpus) {
  return static_cast<int>(cores_of(cpus).size());
}

CpuModel parse_cpuinfo(std::string_view text) {
  static constexpr std::array k_wanted{"sse4_2",   "avx",         "avx2",     "fma",
                                       "avx512f",  "avx512bw",    "avx512vl", "avx512_vnni",
                                       "amx_tile", "avx512_bf16", "amx_bf16"};
  CpuModel model;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = trimmed(line.substr(colon + 1));
    if (line.starts_with("model name")) model.name = value;
    if (!line.starts_with("flags")) continue;
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      if (std::find(k_wanted.begin(), k_wanted.end(), word) != k_wanted.end()) {
        model.extensions.push_back(word);
      }
    }
  }
  return model;
}

}  // namespace dynpipe::probe
