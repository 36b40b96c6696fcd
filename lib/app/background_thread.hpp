#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace dynpipe::app {

/// A thread that does what it is given, one thing after another, off the path of training. Its
/// work must not throw. Destruction waits for all of it.
class BackgroundThread {
 public:
  BackgroundThread();
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void submit(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool closing_ = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace dynpipe::app
