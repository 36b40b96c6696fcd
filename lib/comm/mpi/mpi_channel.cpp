#include "comm/mpi/mpi.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "base/errors.hpp"
#include "comm/mpi/mpi_check.hpp"
#include "comm/mpi/mpi_world.hpp"

namespace dynpipe::comm {
namespace {

class MpiChannel final : public Channel {
 public:
  MpiChannel(MPI_Comm parent, const base::Clock& clock, WaitPolicy policy)
      : Channel(clock, policy) {
    check_mpi(MPI_Comm_dup(parent, &communicator_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  }
  ~MpiChannel() override { MPI_Comm_free(&communicator_); }

  int rank() const override { return rank_; }

  Ticket send(const MessageName& name, std::span<const std::byte> bytes,
              const device::Event& ready) override {
    require_reached(ready);
    Flight& flight = take(name, bytes.size(), false);
    check(MPI_Isend(bytes.data(), count_of(bytes.size(), name), MPI_BYTE, name.to, tag_of(name),
                    communicator_, &flight.request),
          name);
    return index_of(flight);
  }

  Ticket receive(const MessageName& name, std::span<std::byte> bytes,
                 const device::Event& free) override {
    require_reached(free);
    Flight& flight = take(name, bytes.size(), true);
    check(MPI_Irecv(bytes.data(), count_of(bytes.size(), name), MPI_BYTE, name.from, tag_of(name),
                    communicator_, &flight.request),
          name);
    return index_of(flight);
  }

  bool test(Ticket ticket) override {
    Flight& flight = flights_[ticket];
    if (flight.complete) return true;
    int complete = 0;
    MPI_Status status;
    check(MPI_Test(&flight.request, &complete, &status), flight.name);
    if (complete == 0) return false;
    if (flight.receives) check_length(flight, status);
    flight.complete = true;
    return true;
  }

  void join(Ticket ticket, device::Stream&) override {
    wait_until([&] { return test(ticket); }, [&] { return flights_[ticket].name.to_string(); });
  }

  void retire(Ticket ticket) override { free_.push_back(ticket); }

  void cancel(Ticket ticket) override {
    Flight& flight = flights_[ticket];
    if (!flight.complete) {
      check(MPI_Cancel(&flight.request), flight.name);
      check(MPI_Wait(&flight.request, MPI_STATUS_IGNORE), flight.name);
    }
    retire(ticket);
  }

  MessageName name(Ticket ticket) const override { return flights_[ticket].name; }

  void progress() override {
    // Any MPI call moves all requests on; a probe for a tag that nobody uses costs the least.
    int found = 0;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, k_unused_tag, communicator_, &found, MPI_STATUS_IGNORE),
              "MPI_Iprobe");
  }

 private:
  struct Flight {
    MPI_Request request = MPI_REQUEST_NULL;
    MessageName name{};
    std::size_t bytes = 0;
    bool receives = false;
    bool complete = false;
  };

  // Tags carry payload and index, so that messages which a defect swaps do not pass for one
  // another. 32767 is the largest tag that every MPI has.
  static constexpr int k_payloads = static_cast<int>(k_last_payload) + 1;
  static constexpr int k_indices = 32767 / k_payloads;
  static constexpr int k_unused_tag = k_payloads * k_indices;
  static int tag_of(const MessageName& name) {
    return static_cast<int>(name.payload) * k_indices + static_cast<int>(name.index % k_indices);
  }

  static int count_of(std::size_t bytes, const MessageName& name) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw base::RunError(
          fmt::format("{}: {} bytes are more than one message can hold", name.to_string(), bytes));
    }
    return static_cast<int>(bytes);
  }

  /// Work of other streams than immediate ones would have to be waited for first.
  static void require_reached(const device::Event& event) {
    if (!event.reached()) throw std::logic_error("MPI messages need an immediate stream");
  }

  /// MPI takes a shorter message than was announced without a word.
  static void check_length(const Flight& flight, const MPI_Status& status) {
    int received = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &received), flight.name);
    if (static_cast<std::size_t>(received) != flight.bytes) {
      throw base::RunError(fmt::format("{}: {} bytes came, {} were expected",
                                       flight.name.to_string(), received, flight.bytes));
    }
  }

  static void check(int code, const MessageName& name) {
    if (code != MPI_SUCCESS) check_mpi(code, name.to_string());
  }

  Flight& take(const MessageName& name, std::size_t bytes, bool receives) {
    if (free_.empty()) {
      free_.push_back(flights_.size());
      flights_.emplace_back();
      free_.reserve(flights_.size());
    }
    Flight& flight = flights_[free_.back()];
    free_.pop_back();
    flight = {MPI_REQUEST_NULL, name, bytes, receives, false};
    return flight;
  }
  Ticket index_of(const Flight& flight) const {
    return static_cast<Ticket>(&flight - flights_.data());
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<Flight> flights_;
  std::vector<Ticket> free_;
};

}  // namespace

std::unique_ptr<Channel> make_mpi_channel(World& world, const base::Clock& clock,
                                          WaitPolicy policy) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw std::logic_error("an MPI channel needs an MPI world");
  return std::make_unique<MpiChannel>(mpi->communicator(), clock, policy);
}

}  // namespace dynpipe::comm
