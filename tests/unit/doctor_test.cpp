// What `dynpipe doctor` makes of facts.

#include "app/doctor_findings.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dynpipe::app {
namespace {

/// Sound ranks, one a core, `ranks_of_host` of them a host.
std::vector<DoctorFacts> sound(int ranks, int ranks_of_host) {
  std::vector<DoctorFacts> all;
  for (int rank = 0; rank < ranks; ++rank) {
    DoctorFacts facts;
    const int core = rank % ranks_of_host;
    facts.place.rank = rank;
    facts.place.host = fmt::format("n{}", rank / ranks_of_host);
    facts.place.cpus = {{core, core, 0}};
    facts.place.host_cores = ranks_of_host;
    facts.room.host = facts.place.host;
    facts.room.host_bytes = 64'000'000'000;
    facts.room.available_bytes = 60'000'000'000;
    facts.host = {1 << 30U, 1024, -1, true, false, {}};
    facts.mpi = {"Open MPI v4.1.4", "3.1", "funneled"};
    facts.maths = {"oneDNN 2.6.3", "AVX2", "OpenBLAS 0.3.21 (Zen)", true};
    facts.hdf5 = {"1.10.8", true};
    facts.cpu = "AMD EPYC";
    facts.gigaflops = 70;
    facts.next_link = {0.5e-6, 8e9, 150e-6};
    all.push_back(facts);
  }
  return all;
}

/// The findings that are not fine.
std::vector<Finding> complaints(const std::vector<DoctorFacts>& ranks) {
  std::vector<Finding> found = findings(ranks);
  std::erase_if(found, [](const Finding& finding) { return finding.verdict == Verdict::fine; });
  return found;
}

/// Expects one complaint, with all of these in it.
void expect_complaint(const std::vector<DoctorFacts>& ranks, Verdict verdict,
                      const std::string& topic, const std::vector<std::string>& words) {
  const std::vector<Finding> found = complaints(ranks);
  ASSERT_EQ(found.size(), 1U) << topic;
  EXPECT_EQ(found[0].topic, topic);
  EXPECT_EQ(found[0].verdict, verdict) << topic;
  for (const std::string& word : words) {
    EXPECT_NE(found[0].text.find(word), std::string::npos) << word << " in: " << found[0].text;
  }
}

TEST(DoctorTest, SoundRanksAreFine) {
  for (const auto& ranks : {sound(1, 1), sound(4, 2)}) EXPECT_TRUE(complaints(ranks).empty());
}

TEST(DoctorTest, TwoRanksOnOneCoreAreWrongAndOversubscriptionIsAWarning) {
  auto ranks = sound(4, 4);
  ranks[3].place.cpus = ranks[0].place.cpus;
  expect_complaint(ranks, Verdict::wrong, "binding", {"ranks 0 and 3 are both bound to core 0"});
  ranks = sound(2, 2);
  for (DoctorFacts& rank : ranks) rank.place.host_cores = 1, rank.place.cpus = {{0, 0, 0}};
  expect_complaint(ranks, Verdict::warning, "binding", {"2 threads", "1 core"});
}

TEST(DoctorTest, SrunThatDoesNotSpeakToMpi) {
  auto ranks = sound(1, 1);
  ranks[0].slurm_step_tasks = 4;
  expect_complaint(ranks, Verdict::wrong, "launch", {"4 tasks", "--mpi=pmix"});
}

TEST(DoctorTest, DifferentLibrariesAndCpus) {
  auto ranks = sound(4, 2);
  ranks[2].mpi.library = ranks[3].mpi.library = "MPICH 4.0";
  expect_complaint(ranks, Verdict::wrong, "MPI", {"MPICH 4.0", "Open MPI v4.1.4"});
  ranks = sound(2, 1);
  ranks[1].hdf5.version = "1.14.3";
  expect_complaint(ranks, Verdict::warning, "HDF5", {"1.10.8", "1.14.3"});
  for (DoctorFacts& rank : ranks) rank.hdf5 = {"1.14.3", false};
  expect_complaint(ranks, Verdict::wrong, "HDF5", {"1.14.3", "deflate"});
  ranks = sound(4, 2);
  ranks[3].cpu = "Intel Xeon";
  expect_complaint(ranks, Verdict::warning, "CPU", {"AMD EPYC", "Intel Xeon"});
}

TEST(DoctorTest, ASlowRankAndAnotherProcess) {
  auto ranks = sound(4, 2);
  ranks[2].gigaflops = 30;
  expect_complaint(ranks, Verdict::warning, "speed", {"30 on rank 2 of host n1"});
  ranks = sound(4, 2);
  ranks[2].other_cores = ranks[3].other_cores = 1.0;
  expect_complaint(ranks, Verdict::warning, "load", {"1.0 of 2 cores of host n1"});
}

TEST(DoctorTest, LittleMemory) {
  auto ranks = sound(4, 2);
  for (std::size_t rank : {2U, 3U}) {
    ranks[rank].room.limit = {1'500'000'000, "/sys/fs/cgroup/job_7"};
  }
  expect_complaint(ranks, Verdict::warning, "memory", {"1.5 GB", "job_7", "2 ranks on host n1"});
}

TEST(DoctorTest, SharedMemoryLimitsAndNames) {
  auto ranks = sound(2, 2);
  for (DoctorFacts& rank : ranks) rank.host.shm_bytes = 1 << 20U;
  expect_complaint(ranks, Verdict::wrong, "/dev/shm", {"1 MB free", "32 MB"});
  ranks = sound(2, 2);
  for (DoctorFacts& rank : ranks) rank.host.open_files = 32;
  expect_complaint(ranks, Verdict::wrong, "limits", {"32 files", "ulimit -n 68"});
  ranks = sound(2, 2);
  for (DoctorFacts& rank : ranks) rank.host.fabrics = {"mlx5_0"}, rank.host.locked_bytes = 65536;
  expect_complaint(ranks, Verdict::warning, "limits", {"mlx5_0", "64 kB"});
  ranks = sound(2, 2);
  ranks[0].host.name_resolves = false;
  expect_complaint(ranks, Verdict::warning, "names", {"host n0"});
  ranks = sound(2, 1);
  ranks[1].host.name_resolves = false;
  expect_complaint(ranks, Verdict::wrong, "names", {"host n1"});
}

TEST(DoctorTest, ADriverWithoutCudaAndALateWaking) {
  auto ranks = sound(2, 2);
  ranks[0].host.gpu_driver = true;
  expect_complaint(ranks, Verdict::warning, "GPU", {"without CUDA"});
  ranks = sound(3, 3);
  ranks[1].next_link.woken_latency_s = 5e-3;
  expect_complaint(ranks, Verdict::warning, "waking", {"5000 us", "ranks 1 and 2"});
}

TEST(DoctorTest, ManyHostsWithTheSameTroubleAreAFewLines) {
  auto ranks = sound(200, 2);
  for (DoctorFacts& rank : ranks) rank.host.gpu_driver = true;
  EXPECT_LE(complaints(ranks).size(), 6U);
}

TEST(DoctorTest, FactsSurviveTheWayToTheFirstRank) {
  DoctorFacts facts = sound(1, 1)[0];
  facts.host.fabrics = {"mlx5_0", "mlx5_1"};
  facts.room.limit = {123, "/group"};
  facts.slurm_step_tasks = 7;
  const DoctorFacts copy = unpack_doctor_facts(pack(facts));
  EXPECT_EQ(pack(copy), pack(facts));
  EXPECT_EQ(copy.host.fabrics, facts.host.fabrics);
  EXPECT_EQ(copy.room.limit->folder, "/group");
}

}  // namespace
}  // namespace dynpipe::app
