// health_prober.h: asks every instance for GET /health, again and again.
//
// Invariant: one probe of an instance at a time; each ends by its time-out, so a stalled engine
//            cannot hold the others' probes up.
// Threads:   the worker's; wake() from any.
// Owner:     outlives the worker's io_context, with which its coroutines end.
#pragma once

#include <memory>
#include <set>

#include <boost/asio/awaitable.hpp>

#include "proxy/core.h"
#include "proxy/waiting.h"

namespace sluice::proxy {

class HealthProber {
 public:
  HealthProber(Core& core, Worker& worker) : core_(core), worker_(worker) {}

  // The first probes go out with the first turn of the worker's thread.
  void start();
  // Probes now, not at the end of the interval: an instance is new.
  void wake();

 private:
  boost::asio::awaitable<void> keep_probing();
  boost::asio::awaitable<void> probe(std::shared_ptr<const Instance> instance);
  boost::asio::awaitable<bool> is_healthy(const Instance& instance);

  Core& core_;
  Worker& worker_;
  std::set<sched::InstanceId> asked_;  // whose probe is running
  Gate* pause_ = nullptr;              // keep_probing()'s, while it waits for the next round
};

}  // namespace sluice::proxy
