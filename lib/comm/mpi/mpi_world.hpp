#pragma once

#include <mpi.h>

#include "comm/world.hpp"

namespace dynpipe::comm {

/// A communicator that is this object's, with errors returned, not fatal.
class MpiWorld final : public World {
 public:
  /// Owns `communicator`. Where `finalizes`, MPI ends with it.
  MpiWorld(MPI_Comm communicator, bool finalizes);
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override;
  int local_size() const override { return local_size_; }
  std::string broadcast(const std::string& text) override;
  std::vector<std::string> gather(const std::string& text) override;
  std::vector<double> sum(const std::vector<double>& values) override;
  void barrier() override;
  std::unique_ptr<World> first(int count) override;

  MPI_Comm communicator() const { return communicator_; }

 private:
  /// Waits for a collective call as channels wait: with naps and a deadline. `what` names it.
  void finish(MPI_Request request, const char* what) const;
  /// `bytes` of rank `root`, on all.
  void broadcast_bytes(void* bytes, std::size_t count, int root, const char* what) const;
  void end_all(int exit_code) override;
  void agree(const std::optional<base::Error>& error) override;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  bool finalizes_;
  int rank_ = 0, size_ = 1, local_size_ = 1;
};

}  // namespace dynpipe::comm
