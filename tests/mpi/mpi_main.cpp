// Runs the MPI tests on every rank. A rank that fails prints why; all ranks agree on the outcome,
// so that none is left waiting.
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "comm/mpi/mpi.hpp"
#include "mpi/mpi_fixture.hpp"

namespace dynpipe::testing {

comm::World*& mpi_world() {
  static comm::World* world = nullptr;
  return world;
}

namespace {

/// A failure on one rank fails the test on all, so that the ranks stay together.
class Agreement final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const bool failed = test.result()->Failed();
    if (mpi_world()->sum({failed ? 1.0 : 0.0})[0] > 0 && !failed) {
      ADD_FAILURE() << "another rank failed";
    }
  }
};

}  // namespace
}  // namespace dynpipe::testing

int main(int argc, char** argv) {
  const auto world = dynpipe::comm::make_mpi_world(&argc, &argv);
  dynpipe::testing::mpi_world() = world.get();
  ::testing::InitGoogleTest(&argc, argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world->rank() != 0) {
    // One account of what ran is enough; failures of other ranks still say what went wrong.
    delete listeners.Release(listeners.default_result_printer());
    class Failures final : public ::testing::EmptyTestEventListener {
      void OnTestPartResult(const ::testing::TestPartResult& part) override {
        if (part.failed()) {
          std::fprintf(stderr, "rank %d: %s\n", dynpipe::testing::mpi_world()->rank(),
                       part.message());
        }
      }
    };
    listeners.Append(new Failures);
  }
  listeners.Append(new dynpipe::testing::Agreement);
  const int failed = RUN_ALL_TESTS();
  return world->sum({static_cast<double>(failed)})[0] > 0 ? 1 : 0;
}
