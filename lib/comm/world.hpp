#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.hpp"

namespace dynpipe::comm {

/// A failure that all ranks know of and throw alike: it is said once, and no rank waits for
/// another.
class AgreedError : public base::Error {
 public:
  using Error::Error;
};

/// All ranks of the job: what is agreed on outside training steps. Every call is collective.
class World {
 public:
  virtual ~World() = default;
  /// Longest wait of a collective call; past it the call throws DeadlineError.
  void set_deadline(double seconds) { deadline_s_ = seconds; }

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;
  /// Ranks on this host.
  virtual int local_size() const = 0;

  /// `text` of rank 0, on all.
  virtual std::string broadcast(const std::string& text) = 0;
  /// Everybody's text on rank 0, by rank; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  /// Element-wise sum in rank order, on all.
  virtual std::vector<double> sum(const std::vector<double>& values) = 0;
  virtual void barrier() = 0;
  /// The first `count` ranks as a world of their own; null on the others.
  virtual std::unique_ptr<World> first(int count) = 0;
  /// Not collective: end all ranks at once with this exit code.
  [[noreturn]] void abort(int exit_code) {
    end_all(exit_code);
    std::_Exit(exit_code);
  }

  /// Run `part` on this rank, whatever it does on the others. Where it throws an Error on any rank,
  /// all ranks throw the lowest such rank's as an AgreedError. `part` calls nothing collective.
  template <typename Part>
  void together(Part&& part) {
    std::optional<base::Error> error;
    try {
      part();
    } catch (const base::Error& thrown) {
      error = thrown;
    }
    agree(error);
  }

 protected:
  double deadline_s() const { return deadline_s_; }

 private:
  virtual void end_all(int exit_code) = 0;
  virtual void agree(const std::optional<base::Error>& error) = 0;

  double deadline_s_ = 600;
};

}  // namespace dynpipe::comm
