// proxy.h: the OpenAI endpoint in front of engines with different roles. docs/protocols/serving.md
// is the contract, docs/operating/proxy.md the manual.
//
// Invariant: a request reaches an engine only when its caller was allowed to; nothing of it is
//            shared between threads but what Core holds.
// Threads:   open(), start(), drain(), stop() on the owner's thread; requests on the front's
//            workers.
// Failure:   open() as http::Front::open(), and kInvalidArgument for an instance that is refused.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "http/front.h"
#include "proxy/core.h"
#include "proxy/health_prober.h"

namespace sluice::proxy {

struct ProxyOptions {
  Settings settings;
  DirectorOptions pools;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  bool beyond_loopback = false;  // `host` is not a loopback address
  std::size_t threads = 1;
  http::FrontLimits limits;
  std::optional<FeatureDirectoryOptions> arena;  // nothing: works without one
  std::vector<InstanceSpec> instances;
  std::function<void(std::string_view)> log;  // lines for the operator
  std::function<void(const std::string&)> access_log;
  std::function<std::uint64_t()> log_lines_lost;  // of both; may be empty
};

class Proxy {
 public:
  static Result<std::unique_ptr<Proxy>> open(ProxyOptions options);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::uint16_t port() const noexcept { return front_->port(); }
  Core& core() noexcept { return *core_; }
  void start();
  // Not ready from now on; true when every request ended in time.
  bool drain(std::chrono::milliseconds timeout);
  void stop();

 private:
  Proxy() = default;

  boost::asio::awaitable<void> handle(std::size_t thread, http::Exchange& exchange);
  boost::asio::awaitable<void> serve_own(Worker& worker, http::Exchange& exchange,
                                         std::string_view path);
  boost::asio::awaitable<void> serve_instances(http::Exchange& exchange, std::string_view path);
  boost::asio::awaitable<void> add_instance(http::Exchange& exchange, InstanceSpec spec);
  boost::asio::awaitable<void> remove_instance(http::Exchange& exchange, sched::InstanceId id);
  std::optional<OpenAiError> refuse(const http::ExchangeHead& head, std::string_view path) const;
  bool ready() const;      // an engine that answers requests has said that it is healthy
  bool all_ready() const;  // and every other engine too
  std::string metrics() const;

  bool beyond_loopback_ = false;
  std::unique_ptr<Core> core_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<HealthProber> prober_;
  std::unique_ptr<http::Front> front_;
};

}  // namespace sluice::proxy
