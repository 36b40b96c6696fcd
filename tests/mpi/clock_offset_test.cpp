#include "comm/clock_offset.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "mpi/mpi_fixture.hpp"

namespace dynpipe::testing {
namespace {

/// Every rank's own, an hour ahead of the one before.
class ShiftedClock final : public base::Clock {
 public:
  explicit ShiftedClock(double by_s) : by_s_(by_s) {}
  double now_s() const override { return steady_.now_s() + by_s_; }

 private:
  base::SteadyClock steady_;
  double by_s_;
};

TEST(MpiClockOffsetTest, IsFoundToWithinItsError) {
  const double by_s = 3600.0 * mpi_world()->rank();
  const ShiftedClock clock(by_s);
  const auto channel = comm::make_mpi_channel(*mpi_world(), clock, {.deadline_s = 60});
  const comm::ClockOffset found = comm::find_clock_offset(*channel, mpi_world()->size(), clock);
  EXPECT_LE(std::abs(found.offset_s + by_s), found.error_s + 1e-9);
  EXPECT_LT(found.error_s, 10);
}

}  // namespace
}  // namespace dynpipe::testing
