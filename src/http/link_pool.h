// link_pool.h: idle connections to one engine.
//
// Invariant: take() gives only connections that idled for less than idle_max() and that the engine
//            has not closed as far as this machine knows.
// Threads:   its io_context's only.
// Owner:     owns the idle links. Calls share it, since they may end after their Upstream.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "http/link.h"
#include "http/upstream.h"
#include "http/upstream_totals.h"
#include "http/watchdog.h"

namespace sluice::http {

class LinkPool {
 public:
  LinkPool(boost::asio::io_context& io, UpstreamOptions options)
      : options_(std::move(options)), io_(io), watchdog_(io) {}

  std::unique_ptr<Link> make();
  std::unique_ptr<Link> take() noexcept;    // null: none
  void put(std::unique_ptr<Link> link);     // closes it when it may not be kept
  void learn(std::string_view keep_alive);  // an answer's Keep-Alive field
  void close() noexcept;                    // nothing is kept from here on

  boost::asio::io_context& io() noexcept { return io_; }
  const UpstreamOptions& options() const noexcept { return options_; }
  std::chrono::milliseconds idle_max() const noexcept;
  void set_idle_max(std::chrono::milliseconds idle_max) noexcept { options_.idle_max = idle_max; }
  const Upstream::Counts& counts() const noexcept { return counts_; }
  void connected() noexcept { count(&Upstream::Counts::connects, &UpstreamTotals::connects); }
  void reused() noexcept { count(&Upstream::Counts::reuses, &UpstreamTotals::reuses); }
  void retried() noexcept { count(&Upstream::Counts::retries, &UpstreamTotals::retries); }
  void failed() noexcept { count(&Upstream::Counts::failures, &UpstreamTotals::failures); }
  std::size_t idle() const noexcept { return idle_.size(); }

 private:
  void count(std::uint64_t Upstream::Counts::* own,
             std::atomic<std::uint64_t> UpstreamTotals::* of_all) noexcept {
    ++(counts_.*own);
    if (options_.totals != nullptr)
      (options_.totals->*of_all).fetch_add(1, std::memory_order_relaxed);
  }

  struct Idle {
    std::unique_ptr<Link> link;
    Clock::time_point since;
  };

  UpstreamOptions options_;
  boost::asio::io_context& io_;
  Watchdog watchdog_;
  std::vector<Idle> idle_;  // the one used last at the end
  std::chrono::milliseconds learned_ = std::chrono::milliseconds::max();
  Upstream::Counts counts_;
  bool closed_ = false;
};

}  // namespace sluice::http
