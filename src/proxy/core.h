// core.h: what all requests of the proxy stand on.
//
// Owner:   Core owns what the workers share; a Worker owns what is its thread's alone.
// Threads: Core's parts are each safe from any thread. A Worker belongs to one io_context.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "http/upstream.h"
#include "proxy/answer_facts.h"
#include "proxy/director.h"
#include "proxy/encode_table.h"
#include "proxy/feature_directory.h"
#include "proxy/live_ids.h"
#include "proxy/media_names.h"
#include "proxy/meter.h"
#include "proxy/openai_request.h"
#include "proxy/settings.h"

namespace sluice::proxy {

struct Core {
  Core(Settings of, DirectorOptions pools)
      : settings(std::move(of)),
        director(std::move(pools)),
        aliases(settings.aliases_max),
        learned(settings.learned_items_max) {}

  const Settings settings;
  Director director;
  EncodeTable encodes;
  AliasTable aliases;
  LearnedItems learned;
  LiveIds live_ids;
  std::unique_ptr<FeatureDirectory> features;          // null: no arena
  std::function<void(const std::string&)> access_log;  // one JSON object; may be empty
  std::function<std::uint64_t()> log_lines_lost;       // may be empty
  std::atomic<bool> draining = false;
};

// Connections to engines, the parser and the counters of one thread.
class Worker {
 public:
  Worker(Core& core, std::size_t number) : core_(core), number_(number) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void attach(boost::asio::io_context& io) { io_ = &io; }
  boost::asio::io_context& io() const noexcept { return *io_; }
  std::size_t number() const noexcept { return number_; }
  // Shared with calls that are running, which may outlive the instance's removal.
  std::shared_ptr<http::Upstream> upstream(const Instance& instance);
  // The engine said how long it keeps a connection.
  void learn_keep_alive(const Instance& instance, std::string_view keep_alive_header);
  // Closes idle connections. On the worker's thread, or when it has ended, before its io_context
  // goes.
  void close() { upstreams_.clear(); }

  Meter meter;
  Scanner scanner;
  AnswerReader reader;

 private:
  struct Known {
    std::shared_ptr<http::Upstream> upstream;
    std::chrono::milliseconds keep_alive{};
  };
  Core& core_;
  std::size_t number_;
  boost::asio::io_context* io_ = nullptr;
  std::unordered_map<sched::InstanceId, Known> upstreams_;
};

// On whose behalf a stage runs. Everything in it outlives the stage.
struct Errand {
  Core& core;
  Worker& worker;
  std::string id;  // x-request-id for engines
  std::string traceparent, tracestate;
  Instant deadline = kFarFuture;
  http::StopSource* stop = nullptr;
};

}  // namespace sluice::proxy
