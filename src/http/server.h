// server.h: a small HTTP/1.1 server for operators: bounded in headers, bodies, connections and
// time.
//
// Invariant: `head` decides before one byte of a body is read (who may ask, how large the body may
//            be); `handle` sees only requests that it let through, with a body of at most that
//            size.
// Threads:   open(), start(), stop() on the owner's thread. `head` runs on the server's I/O thread
//            and must not block; `handle` runs on that thread for requests that head() calls quick,
//            else on one of two worker threads.
// Failure:   open() answers kUnavailable when the port is taken, kPermission when it may not be
//            bound. A malformed request gets its 4xx; a peer that is too slow is closed; nothing a
//            peer sends stops the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/error.h>

#include "http/limits.h"
#include "http/target.h"

namespace sluice::http {

struct RequestHead {
  std::string method;
  Target target;
  std::string host;  // the Host header
  std::string authorization;
  std::optional<std::uint64_t> content_length;  // nothing when the body is chunked or there is none
};

struct Request {
  RequestHead head;
  std::string body;
};

struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Bytes that live elsewhere: sent instead of `body` when `owner` is set. Shared because the
  // answer is written after the handler returned; the server drops it when the answer has left or
  // the peer is given up.
  std::span<const std::byte> view;
  std::shared_ptr<const void> owner;
};

// head()'s decision: an answer at once, or the way the request may go on.
struct Admission {
  std::optional<Response> refusal;
  std::uint64_t body_bytes_max = 0;
  bool quick = false;  // handle() does not block
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  std::function<Admission(const RequestHead&)> head;
  std::function<Response(const Request&)> handle;
  // One line per answer: method, path without query, status. May be empty.
  std::function<void(const RequestHead&, unsigned status)> log;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> open(ServerOptions options);  // binds and listens
  ~Server();                                                           // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const noexcept;
  void start();
  void stop();  // closes every connection and joins the threads

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace sluice::http
