// front.h: the server that clients of the serving path talk to: streaming, thousands of
// connections, one io_context per thread.
//
// Invariant: a request reaches `handle` only when its header is well-formed and within the limits.
//            Conflicting or malformed framing (two lengths, length and chunked, a bare LF, NUL, an
//            overflowing chunk size, ...) is answered 400 and the connection closed; the handler
//            never sees it.
// Threads:   open(), start(), drain(), stop() on the owner's thread. Each worker accepts on the
//            same address (SO_REUSEPORT) and shares nothing with the others.
// Owner:     its io_contexts live as long as it does. What others bind to them (an Upstream, a
//            timer) goes after stop() and before the Front.
// Failure:   open() answers kUnavailable when the port is taken, kPermission when it may not be
//            bound, kInvalidArgument for an address that is none. An exception from `handle` is
//            logged by `log` and answers 500.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <sluice/error.h>

#include "http/exchange.h"

namespace sluice::http {

struct FrontLimits {
  std::size_t header_bytes_max = 16 * 1024;
  std::size_t fields_max = 100;
  std::chrono::milliseconds header_timeout{10'000};     // from its first byte to its last
  std::chrono::milliseconds idle_timeout{75'000};       // a kept connection without a request
  std::chrono::milliseconds body_idle_timeout{30'000};  // between two reads of a body
  std::chrono::milliseconds write_timeout{30'000};      // a reader that takes nothing
  std::size_t connections_max = 10'000;                 // of all threads together
  std::size_t stream_buffer_bytes_max = 256 * 1024;     // the kernel's send buffer of a connection
};

struct FrontOptions {
  std::string host = "127.0.0.1";  // an IPv4 or IPv6 literal, without brackets
  std::uint16_t port = 0;          // 0: any free one
  std::size_t threads = 1;
  FrontLimits limits;
  // `thread` says which worker runs it: 0 .. threads - 1.
  std::function<boost::asio::awaitable<void>(std::size_t thread, Exchange&)> handle;
  // For what the handler did not see: malformed requests, refused connections. May be empty.
  std::function<void(std::string_view what, unsigned status)> log;
};

class Front {
 public:
  static Result<std::unique_ptr<Front>> open(FrontOptions options);  // binds and listens
  virtual ~Front() = default;                                        // stop()

  virtual std::uint16_t port() const noexcept = 0;
  virtual std::size_t connections() const noexcept = 0;
  virtual boost::asio::io_context& context(std::size_t thread) noexcept = 0;
  virtual void start() = 0;
  // Accepts nothing more, closes idle connections, lets running requests finish until the deadline.
  // True when none was left.
  virtual bool drain(std::chrono::milliseconds timeout) = 0;
  // Closes every connection, tells the handlers (Exchange::on_gone) and joins the threads. A
  // handler that has not returned after 5 seconds is given up and destroyed with the Front.
  virtual void stop() = 0;
};

}  // namespace sluice::http
