// stop_source.h: cancels what one request has running.
//
// Invariant: each callback runs at most once: at stop(), or at once when it is added afterwards.
// Threads:   one.
// Owner:     what waits holds a StopGuard, which may outlive the source.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::http {

class StopSource {
 public:
  StopSource() = default;
  StopSource(const StopSource&) = delete;
  StopSource& operator=(const StopSource&) = delete;

  bool stopped() const noexcept { return stopped_; }
  void stop();
  // The callback's number, for remove(). Runs it now when stop() has been called.
  std::uint64_t add(std::function<void()> callback);
  void remove(std::uint64_t number) noexcept;

 private:
  friend class StopGuard;
  struct Callbacks {
    std::uint64_t next = 1;
    std::vector<std::pair<std::uint64_t, std::function<void()>>> list;
    void remove(std::uint64_t number) noexcept;
  };

  bool stopped_ = false;
  // Shared with guards, which may end after the source. Made by the first add().
  std::shared_ptr<Callbacks> callbacks_;
};

// One callback for as long as the guard lives.
class StopGuard {
 public:
  StopGuard() = default;
  StopGuard(StopSource& source, std::function<void()> callback);
  StopGuard(StopGuard&& other) noexcept = default;
  StopGuard& operator=(StopGuard&& other) noexcept;
  ~StopGuard() { release(); }
  void release() noexcept;

 private:
  std::weak_ptr<StopSource::Callbacks> callbacks_;
  std::uint64_t number_ = 0;
};

}  // namespace sluice::http
