#include "comm/mpi/mpi_world.hpp"

#include <array>
#include <numeric>

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

std::string MpiWorld::broadcast(const std::string& text) {
  auto length = static_cast<unsigned long long>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_UNSIGNED_LONG_LONG, 0, communicator_), "MPI_Bcast");
  std::string result = text;
  result.resize(length);
  check_mpi(MPI_Bcast(result.data(), static_cast<int>(length), MPI_CHAR, 0, communicator_),
            "MPI_Bcast");
  return result;
}

std::vector<std::string> MpiWorld::gather(const std::string& text) {
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_));
  check_mpi(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, communicator_),
            "MPI_Gather");
  std::vector<int> offsets(lengths.size(), 0);
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(rank_ == 0 ? static_cast<std::size_t>(offsets.back() + lengths.back()) : 0, ' ');
  check_mpi(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                        MPI_CHAR, 0, communicator_),
            "MPI_Gatherv");
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
  const std::size_t count = values.size();
  std::vector<double> all(count * static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(values.data(), static_cast<int>(count), MPI_DOUBLE, all.data(),
                          static_cast<int>(count), MPI_DOUBLE, communicator_),
            "MPI_Allgather");
  std::vector<double> total(count, 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) total[i % count] += all[i];
  return total;
}

void MpiWorld::barrier() {
  check_mpi(MPI_Barrier(communicator_), "MPI_Barrier");
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
  int failed = error ? rank_ : size_;
  int first = size_;
  check_mpi(MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, communicator_), "MPI_Allreduce");
  if (first == size_) return;
  int code = error ? static_cast<int>(error->code()) : 0;
  check_mpi(MPI_Bcast(&code, 1, MPI_INT, first, communicator_), "MPI_Bcast");
  std::string text = error && first == rank_ ? error->what() : "";
  auto length = static_cast<int>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT, first, communicator_), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(text.data(), length, MPI_CHAR, first, communicator_), "MPI_Bcast");
  throw AgreedError(static_cast<base::ExitCode>(code), text);
}

std::unique_ptr<World> make_mpi_world(int* argc, char*** argv) {
  int provided = 0;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm all = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  return std::make_unique<MpiWorld>(all, true);
}

}  // namespace dynpipe::comm
