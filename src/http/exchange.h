// exchange.h: one request of a client and its answer, on the thread that accepted the connection.
//
// Invariant: at most one answer is begun, and one call is under way at a time. Bytes of an answer
//            are handed to the kernel before write() returns, so a slow reader stops its producer
//            and nothing is buffered beyond the socket.
// Threads:   the connection's io_context only.
// Owner:     the server owns it for the time of the handler.
// Failure:   every call answers an Error when the client is gone, too slow or over a limit; the
//            connection is then closed after the handler has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include <sluice/error.h>

namespace sluice::http {

using Header = std::pair<std::string, std::string>;

struct ExchangeHead {
  std::string method;
  std::string target;  // path and query as sent; of an absolute target, what follows its authority
  std::vector<Header> headers;
  std::optional<std::uint64_t> content_length;
  std::string peer;  // address of the client, for the access log

  // The first header of this name, any case; empty when there is none.
  std::string_view header(std::string_view name) const noexcept;
};

// A request's body, with `kPadding` readable bytes behind it, as simdjson wants.
class Body {
 public:
  static constexpr std::size_t kPadding = 64;
  std::string_view text() const noexcept { return std::string_view(bytes_).substr(0, size_); }
  std::size_t capacity() const noexcept { return bytes_.size(); }

 private:
  friend class Connection;
  std::string bytes_;
  std::size_t size_ = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const ExchangeHead& head() const noexcept = 0;

  // The whole body, at most `bytes_max`; once. kLimit when it is larger (before it is read, if its
  // length is said), kTimedOut when it idles, kInvalidArgument when it is malformed, kUnavailable
  // when the client is gone. A handler that then returns without an answer leaves it to the server
  // to say so (413, 408, 400); one that never begins an answer otherwise makes it a 500.
  virtual boost::asio::awaitable<Result<Body>> read_body(std::uint64_t bytes_max) = 0;

  // A whole answer.
  virtual boost::asio::awaitable<Status> answer(unsigned status, std::vector<Header> headers,
                                                std::string body) = 0;

  // An answer in pieces: chunked, or as long as a Content-Length among `headers` says. Its header
  // leaves with the first write(), or with end(). write() returns when the kernel has taken all of
  // it. Fields that say where a body ends or whether the connection stays are made here; the
  // caller's are left out.
  virtual boost::asio::awaitable<Status> begin(unsigned status, std::vector<Header> headers) = 0;
  virtual boost::asio::awaitable<Status> write(std::span<const std::string_view> pieces) = 0;
  virtual boost::asio::awaitable<Status> end() = 0;

  virtual bool begun() const noexcept = 0;       // an answer has been started
  virtual unsigned status() const noexcept = 0;  // of the answer; 0 before

  // Called once, on this thread, when the client has closed or reset its connection while the
  // handler still works and the body, if there is one, has been read. Replaces an earlier callback;
  // empty takes it away. Called at once when the client has gone already.
  virtual void on_gone(std::function<void()> callback) = 0;
};

}  // namespace sluice::http
