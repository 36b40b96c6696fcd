// Where ranks run: how many threads they get, and what is said of it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/rank_places.hpp"
#include "probe/crowding.hpp"
#include "probe/placement_warnings.hpp"

namespace dynpipe::probe {
namespace {

/// Cores first .. last of a host without hardware threads, `cores_of_node` a NUMA node.
std::vector<Cpu> cores(int first, int last, int cores_of_node = 1024) {
  std::vector<Cpu> cpus;
  for (int id = first; id <= last; ++id) cpus.push_back({id, id, id / cores_of_node});
  return cpus;
}

/// Ranks 0, 1, ... of one host, each on these CPUs.
std::vector<RankPlace> on_host(int host_cores, const std::vector<std::vector<Cpu>>& cpus) {
  std::vector<RankPlace> places;
  for (const auto& own : cpus) {
    RankPlace place;
    place.rank = static_cast<int>(places.size());
    place.host = "n1";
    place.cpus = own;
    place.host_cores = host_cores;
    places.push_back(place);
  }
  return places;
}

std::vector<int> threads(std::vector<RankPlace> places) {
  choose_threads(places);
  std::vector<int> chosen;
  for (const RankPlace& place : places) chosen.push_back(place.threads);
  return chosen;
}

std::vector<RankPlace> with_threads(std::vector<RankPlace> places, int count) {
  for (RankPlace& place : places) place.asked_threads = count;
  choose_threads(places);
  return places;
}

/// The only warning there is.
std::string warning(const std::vector<RankPlace>& places) {
  const auto warnings = placement_warnings(places);
  EXPECT_EQ(warnings.size(), 1U);
  return warnings.empty() ? std::string() : warnings.front().text;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
  }
}

TEST(ThreadsTest, OneWhereARankMayRunOnTheWholeHost) {
  EXPECT_EQ(threads(on_host(8, {cores(0, 7)})), std::vector{1});
}

TEST(ThreadsTest, AsManyAsTheCoresThatARankIsBoundTo) {
  EXPECT_EQ(threads(on_host(8, {cores(0, 3), cores(4, 5)})), (std::vector{4, 2}));
}

TEST(ThreadsTest, CoresOfSeveralRanksAreDividedAmongThem) {
  EXPECT_EQ(threads(on_host(16, {cores(0, 7), cores(0, 7), cores(0, 7), cores(8, 15)})),
            (std::vector{2, 2, 2, 8}));
  EXPECT_EQ(threads(on_host(8, {cores(0, 0), cores(0, 0)})), (std::vector{1, 1}));
}

TEST(ThreadsTest, HardwareThreadsOfOneCoreAreOneCore) {
  EXPECT_EQ(threads(on_host(4, {{{0, 0, 0}, {4, 0, 0}, {1, 1, 0}, {5, 1, 0}}})), std::vector{2});
}

TEST(ThreadsTest, WhatIsAskedForIsTaken) {
  auto places = on_host(8, {cores(0, 3), cores(0, 7)});
  places[0].asked_threads = 6;
  EXPECT_EQ(threads(places), (std::vector{6, 1}));
}

TEST(ThreadsTest, SlurmSaysWhatIsARanksOwnOnAWholeHost) {
  auto places = on_host(16, {cores(0, 15), cores(0, 15)});
  for (RankPlace& place : places) place.slurm_cpus = 4;
  EXPECT_EQ(threads(places), (std::vector{4, 4}));
  for (RankPlace& place : places) place.slurm_cpus = 12;  // of the batch script, not of a rank
  EXPECT_EQ(threads(places), (std::vector{8, 8}));
}

TEST(ThreadsTest, NoMoreThanTheQuotaFeeds) {
  auto places = on_host(16, {cores(0, 3), cores(4, 7)});
  for (RankPlace& place : places) place.quota = {5.0, "/sys/fs/cgroup/job"};
  EXPECT_EQ(threads(places), (std::vector{2, 2}));
  for (RankPlace& place : places) place.quota = {0.5, "/sys/fs/cgroup/job"};
  EXPECT_EQ(threads(places), (std::vector{1, 1}));
}

TEST(PlacementTest, RanksWithCoresOfTheirOwnAreFine) {
  for (const auto& places : {with_threads(on_host(2, {cores(0, 0), cores(1, 1)}), 1),
                             with_threads(on_host(2, {cores(0, 1), cores(0, 1)}), 1),  // not bound
                             with_threads(on_host(8, {cores(0, 3), cores(4, 7)}), 4)}) {
    EXPECT_TRUE(placement_warnings(places).empty());
    EXPECT_TRUE(has_its_cores(places, 0));
  }
}

TEST(PlacementTest, MoreRanksThanCoresIsOneLine) {
  const auto places =
      with_threads(on_host(2, {cores(0, 1), cores(0, 1), cores(0, 1), cores(0, 1)}), 1);
  expect_words(warning(places), {"ranks 0-3", "4 threads", "2 cores of host n1"});
  EXPECT_FALSE(has_its_cores(places, 3));
  EXPECT_FALSE(placement_warnings(places).front().mistake);
}

TEST(PlacementTest, MoreRanksThanCoresIsOneLineWhereTheyAreBoundInTurn) {
  const auto places =
      with_threads(on_host(2, {cores(0, 0), cores(1, 1), cores(0, 0), cores(1, 1)}), 1);
  expect_words(warning(places), {"ranks 0-3", "4 threads", "2 cores"});
}

TEST(PlacementTest, MoreThreadsThanCores) {
  expect_words(warning(with_threads(on_host(4, {cores(0, 3), cores(0, 3)}), 3)),
               {"ranks 0 and 1", "6 threads", "4 cores"});
  expect_words(warning(with_threads(on_host(4, {cores(2, 2)}), 2)),
               {"rank 0 is bound to core 2", "2 threads", "PE=2"});
}

TEST(PlacementTest, TwoRanksOnOneCoreByMistake) {
  // taskset -c 0 mpirun -n 2
  expect_words(warning(with_threads(on_host(4, {cores(3, 3), cores(3, 3)}), 1)),
               {"ranks 0 and 1 are both bound to core 3 of host n1", "--bind-to core"});
  // mpirun --cpu-list 0,0,1
  const auto places =
      with_threads(on_host(4, {cores(0, 0), cores(0, 0), cores(1, 1), cores(0, 3)}), 1);
  expect_words(warning(places), {"ranks 0 and 1 are both bound to core 0"});
  EXPECT_TRUE(placement_warnings(places).front().mistake);
  EXPECT_FALSE(has_its_cores(places, 1));
  EXPECT_TRUE(has_its_cores(places, 2));
}

TEST(PlacementTest, OnlyTheRanksThatShareACoreAreNamed) {
  const auto places =
      with_threads(on_host(4, {cores(0, 0), cores(1, 1), cores(2, 2), cores(0, 0)}), 1);
  expect_words(warning(places), {"ranks 0 and 3 are both bound to core 0"});
  EXPECT_TRUE(has_its_cores(places, 1));
}

TEST(PlacementTest, RanksThatShareCoresInTurn) {
  // Any two have two cores, but all three have no more.
  const std::vector<Cpu> outer{{0, 0, 0}, {2, 2, 0}};
  expect_words(warning(with_threads(on_host(8, {cores(0, 1), cores(1, 2), outer, outer}), 1)),
               {"ranks 0-3 are all bound to cores 0-2"});
}

TEST(PlacementTest, TwoHardwareThreadsOfOneCore) {
  expect_words(warning(with_threads(on_host(4, {{{3, 3, 0}}, {{7, 3, 0}}}), 1)),
               {"ranks 0 and 1", "one core (hardware threads 3,7)"});
}

TEST(PlacementTest, ManyCrowdsOfAHostAreOneLine) {
  std::vector<std::vector<Cpu>> cpus;
  for (int core = 0; core < 10; ++core) cpus.insert(cpus.end(), 2, cores(core, core));
  expect_words(warning(with_threads(on_host(64, cpus), 1)),
               {"ranks 0 and 1", "core 0", "9 more such groups"});
}

TEST(PlacementTest, AQuotaBelowTheThreads) {
  auto places = with_threads(on_host(4, {cores(0, 0), cores(1, 1)}), 1);
  for (RankPlace& place : places) place.quota = {1.5, "/sys/fs/cgroup/job_7"};
  expect_words(warning(places),
               {"ranks 0 and 1", "2 threads", "1.5 cores", "/sys/fs/cgroup/job_7"});
  for (RankPlace& place : places) place.quota = {2.0, "/sys/fs/cgroup/job_7"};
  EXPECT_TRUE(placement_warnings(places).empty());
}

TEST(PlacementTest, RanksThatMayLeaveTheirNumaNode) {
  expect_words(warning(with_threads(on_host(16, {cores(0, 15, 8), cores(0, 7, 8)}), 2)),
               {"rank 0 may wander between NUMA nodes 0-1", "--bind-to numa"});
  // More threads than a node has cores need several.
  EXPECT_TRUE(placement_warnings(with_threads(on_host(16, {cores(0, 15, 8)}), 16)).empty());
}

TEST(PlacementTest, ManyHostsDoNotFloodTheTerminal) {
  std::vector<RankPlace> places;
  for (int host = 0; host < 100; ++host) {
    for (RankPlace place : on_host(4, {cores(0, 0), cores(0, 0)})) {
      place.rank += 2 * host;
      place.host = fmt::format("n{}", host);
      places.push_back(place);
    }
  }
  const auto warnings = placement_warnings(places);
  ASSERT_LT(warnings.size(), 12U);
  expect_words(warnings.back().text, {"92 more"});
}

TEST(PlacementTest, RanksThatDoNotKnowTheirCpusAreLeftAlone) {
  auto places = with_threads(on_host(0, {{}, {}}), 2);
  EXPECT_EQ(places[1].threads, 2);
  EXPECT_TRUE(placement_warnings(places).empty());
}

TEST(PlacementTest, APlaceSurvivesTheWayToTheOtherRanks) {
  RankPlace place = on_host(4, {cores(2, 3, 2)}).front();
  place.quota = {1.5, "/sys/fs/cgroup/x"};
  place.slurm_cpus = 3;
  const RankPlace copy = app::unpack_place(app::pack(place));
  EXPECT_EQ(copy.cpus, place.cpus);
  EXPECT_EQ(copy.host, "n1");
  EXPECT_EQ(copy.quota->folder, "/sys/fs/cgroup/x");
  EXPECT_EQ(copy.asked_threads, std::nullopt);
  EXPECT_EQ(copy.slurm_cpus, 3);
}

}  // namespace
}  // namespace dynpipe::probe
