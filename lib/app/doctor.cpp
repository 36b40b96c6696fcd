#include "app/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "app/doctor_findings.hpp"
#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "app/rank_places.hpp"

namespace dynpipe::app {
namespace {

OptionGroup describe() {
  OptionGroup group("Options");
  group.add_options()("help", "this text");
  return group;
}

std::string help() {
  std::ostringstream text;
  text << "usage: [mpirun -n RANKS] dynpipe doctor\n\n"
          "Looks at the ranks of a job as it would train, and at their hosts: how they were\n"
          "started, cores, memory, limits, and for about a second how fast they compute and\n"
          "speak to each other. Says what is wrong and how to mend it.\n"
       << describe()
       << "\nExit codes: 0 nothing is wrong (there may be warnings), 1 something is, 2 wrong "
          "usage.\n";
  return text.str();
}

std::string_view word_for(Verdict verdict) {
  switch (verdict) {
    case Verdict::fine:
      return "ok";
    case Verdict::warning:
      return "warning";
    case Verdict::wrong:
      break;
  }
  return "wrong";
}

/// What the launcher was told about networks, which explains many surprises.
std::string launcher_settings() {
  std::string text;
  for (const char* name : {"OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_btl_tcp_if_include", "UCX_TLS",
                           "OMPI_MCA_mpi_yield_when_idle", "SLURM_JOB_ID", "SLURM_NTASKS",
                           "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"}) {
    if (const char* value = std::getenv(name)) text += fmt::format("  {}={}", name, value);
  }
  return text.empty() ? "  no settings of networks, Slurm or OpenMP" : text;
}

int report(const std::vector<DoctorFacts>& ranks) {
  std::vector<probe::RankPlace> places;
  for (const DoctorFacts& rank : ranks) places.push_back(rank.place);
  fmt::print("{}\n", describe_places(places));
  const std::vector<Finding> found = findings(ranks);
  for (const Finding& finding : found) {
    fmt::print("{:<8}  {:<8}  {}\n", word_for(finding.verdict), finding.topic, finding.text);
  }
  fmt::print("{:<8}  {:<8}{}\n", "ok", "settings", launcher_settings());
  const auto count = [&](Verdict verdict) {
    return std::count_if(found.begin(), found.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  };
  fmt::print("\n{} wrong, {} warnings\n", count(Verdict::wrong), count(Verdict::warning));
  std::fflush(stdout);
  return count(Verdict::wrong) > 0 ? 1 : 0;
}

}  // namespace

int doctor(const std::vector<std::string>& words, comm::World& world) {
  bool asked_for_help = false;
  world.together([&] { asked_for_help = !parse_words("doctor", words, describe()); });
  if (asked_for_help) {
    if (world.rank() == 0) fmt::print("{}", help());
    return 0;
  }
  std::vector<DoctorFacts> ranks;
  for (const std::string& text : world.gather(pack(find_facts(world)))) {
    ranks.push_back(unpack_doctor_facts(text));
  }
  const int code = world.rank() == 0 ? report(ranks) : 0;
  return std::stoi(world.broadcast(fmt::format("{}", code)));
}

}  // namespace dynpipe::app
