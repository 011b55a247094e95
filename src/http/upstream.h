// upstream.h: requests to an engine, over kept connections, from one io_context.
//
// Invariant: a connection is reused only when it has idled for less than `idle_max`, which is set
//            strictly below the engine's own keep-alive time, and only after its last answer was
//            read to the end. A request that failed on a reused connection before a byte of an
//            answer came is sent once more on a fresh one when nothing of it can have been acted
//            on.
// Threads:   one io_context; one pool per thread and engine.
// Owner:     the pool owns idle connections; a Call owns its connection until it is finished.
//            Both go before the io_context does.
// Failure:   kUnavailable when it is stopped, cannot connect, or the engine closed before an
//            answer; kTimedOut at the deadline, kLimit for an answer's header beyond its bounds,
//            kIo for a broken answer, kInvalidArgument for a request that cannot be said in HTTP.
//            Destroying a Call before its end closes its connection, which tells the engine to
//            stop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <sluice/error.h>

#include "http/exchange.h"
#include "http/stop_source.h"
#include "http/upstream_totals.h"

namespace sluice::http {

// http://host:port, host a name, an IPv4 literal or a bracketed IPv6 literal.
struct Endpoint {
  std::string host;
  std::uint16_t port = 80;
  static Result<Endpoint> parse(std::string_view url);
  std::string text() const;  // http://[::1]:8000
};

struct UpstreamOptions {
  Endpoint endpoint;
  std::chrono::milliseconds connect_timeout{2'000};
  std::chrono::milliseconds idle_max{4'000};  // 0: connections are never reused
  std::size_t idle_connections_max = 256;
  std::size_t read_buffer_bytes = 64 * 1024;
  UpstreamTotals* totals = nullptr;  // null: nobody asks; outlives the Upstream and its Calls
};

struct UpstreamRequest {
  std::string_view method = "POST";
  std::string target;
  std::vector<Header> headers;             // Host, Content-Length and Connection are made here
  std::span<const std::string_view> body;  // pieces, sent without being copied together
  std::chrono::steady_clock::time_point deadline;  // for the whole answer
};

class Call {
 public:
  virtual ~Call() = default;
  virtual unsigned status() const noexcept = 0;
  virtual const std::vector<Header>& headers() const noexcept = 0;
  virtual std::string_view header(std::string_view name) const noexcept = 0;
  // The next bytes of the body, whatever has arrived; empty at its end. Valid until the next call.
  virtual boost::asio::awaitable<Result<std::string_view>> read() = 0;
  // The rest of the body, at most `bytes_max`.
  virtual boost::asio::awaitable<Result<std::string>> read_all(std::size_t bytes_max) = 0;
  // Ends a read() or read_all() that waits, from the same thread; they answer kUnavailable.
  virtual void cancel() noexcept = 0;
};

class Upstream {
 public:
  static std::unique_ptr<Upstream> make(boost::asio::io_context& io, UpstreamOptions options);
  virtual ~Upstream() = default;  // closes idle connections; Calls go on by themselves

  // Sends the request and reads the answer's header. `stop` (may be null) cancels it from this
  // thread, and the Call's reads after it. `request`, its body and `stop` stay until it has
  // answered.
  virtual boost::asio::awaitable<Result<std::unique_ptr<Call>>> send(const UpstreamRequest& request,
                                                                     StopSource* stop) = 0;

  struct Counts {
    std::uint64_t connects = 0, reuses = 0, retries = 0, failures = 0;
    std::size_t idle = 0;
  };
  virtual Counts counts() const noexcept = 0;
  virtual void set_idle_max(std::chrono::milliseconds idle_max) = 0;
};

}  // namespace sluice::http
