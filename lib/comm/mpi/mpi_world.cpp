#include "comm/mpi/mpi_world.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/clock.hpp"
#include "comm/mpi/mpi.hpp"
#include "comm/mpi/mpi_check.hpp"

namespace dynpipe::comm {

MpiWorld::MpiWorld(MPI_Comm communicator, bool finalizes)
    : communicator_(communicator), finalizes_(finalizes) {
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_size(local, &local_size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free");
}

MpiWorld::~MpiWorld() {
  MPI_Comm_free(&communicator_);
  if (finalizes_) MPI_Finalize();
}

std::string MpiWorld::host() const {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

void MpiWorld::finish(MPI_Request request, const char* what) const {
  const base::SteadyClock clock;
  const double began_s = clock.now_s();
  for (;;) {
    int complete = 0;
    check_mpi(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), what);
    if (complete != 0) return;
    const double waited_s = clock.now_s() - began_s;
    if (waited_s > deadline_s()) {
      throw base::DeadlineError(
          fmt::format("waited {:.0f} s for the other ranks to join in {}", waited_s, what));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void MpiWorld::broadcast_bytes(void* bytes, std::size_t count, int root, const char* what) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(bytes, static_cast<int>(count), MPI_BYTE, root, communicator_, &request),
            what);
  finish(request, what);
}

std::string MpiWorld::broadcast(const std::string& text) {
  std::size_t length = text.size();
  broadcast_bytes(&length, sizeof length, 0, "a broadcast");
  std::string result = text;
  result.resize(length);
  broadcast_bytes(result.data(), length, 0, "a broadcast");
  return result;
}

std::vector<std::string> MpiWorld::gather(const std::string& text) {
  constexpr const char* k_what = "gathering results";
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Igather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, communicator_, &request),
      k_what);
  finish(request, k_what);
  std::vector<int> offsets(lengths.size(), 0);
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(rank_ == 0 ? static_cast<std::size_t>(offsets.back() + lengths.back()) : 0, ' ');
  check_mpi(MPI_Igatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                         MPI_CHAR, 0, communicator_, &request),
            k_what);
  finish(request, k_what);
  std::vector<std::string> texts;
  for (std::size_t r = 0; rank_ == 0 && r < lengths.size(); ++r) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  }
  return texts;
}

std::vector<double> MpiWorld::sum(const std::vector<double>& values) {
  // Gathered and summed here rather than by MPI_Allreduce: the order must not depend on the
  // library.
  constexpr const char* k_what = "summing results";
  const std::size_t count = values.size();
  std::vector<double> all(count * static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(values.data(), static_cast<int>(count), MPI_DOUBLE, all.data(),
                           static_cast<int>(count), MPI_DOUBLE, communicator_, &request),
            k_what);
  finish(request, k_what);
  std::vector<double> total(count, 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) total[i % count] += all[i];
  return total;
}

void MpiWorld::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(communicator_, &request), "a barrier");
  finish(request, "a barrier");
}

std::unique_ptr<World> MpiWorld::first(int count) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(communicator_, rank_ < count ? 0 : MPI_UNDEFINED, rank_, &part),
            "MPI_Comm_split");
  return part == MPI_COMM_NULL ? nullptr : std::make_unique<MpiWorld>(part, false);
}

void MpiWorld::end_all(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

void MpiWorld::agree(const std::optional<base::Error>& error) {
  constexpr const char* k_what = "agreeing to go on";
  const int failed = error ? rank_ : size_;
  int first = size_;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&failed, &first, 1, MPI_INT, MPI_MIN, communicator_, &request), k_what);
  finish(request, k_what);
  if (first == size_) return;
  int code = error ? static_cast<int>(error->code()) : 0;
  broadcast_bytes(&code, sizeof code, first, k_what);
  std::string text = error && first == rank_ ? error->what() : "";
  std::size_t length = text.size();
  broadcast_bytes(&length, sizeof length, first, k_what);
  text.resize(length);
  broadcast_bytes(text.data(), length, first, k_what);
  throw AgreedError(static_cast<base::ExitCode>(code), text);
}

std::unique_ptr<World> make_mpi_world(int* argc, char*** argv) {
  int provided = 0;
  // Where ranks outnumber cores, Open MPI gives its core away in every look at a message. Next to a
  // busy neighbour each of these costs a time slice: training became 10 times slower. Our waits
  // nap.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm all = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  return std::make_unique<MpiWorld>(all, true);
}

}  // namespace dynpipe::comm
