// admin.h: the daemon's HTTP interface for people, probes and Prometheus. Documented in
// docs/operating/admin-http.md.
//
// Invariant: bytes of objects are read, written and removed only with the bearer token; without a
//            configured token not at all. The token is compared in constant time and never printed.
//            /livez and /readyz never touch the store.
// Threads:   open(), start(), stop() on the daemon's main thread. Requests run on the server's
//            threads. The store is used as any client uses it: over an ordinary attachment, made at
//            the first request that needs one.
// Failure:   open() answers kUnavailable when the port is taken. A request that the store cannot
//            serve gets 503.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <sluice/client.h>

#include "common/log.h"
#include "http/server.h"
#include "store/daemon.h"

namespace sluice::daemon {

struct AdminOptions {
  std::string host;
  std::uint16_t port = 0;
  std::string token;
  std::string directory;  // of the arena
  std::uint64_t body_bytes_max = 0;
  std::function<store::DaemonHealth()> health;
  const app::Log* log = nullptr;  // outlives the server
};

class Admin {
 public:
  static Result<std::unique_ptr<Admin>> open(AdminOptions options);
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  std::uint16_t port() const noexcept { return server_->port(); }
  void start() { server_->start(); }
  void stop();

 private:
  explicit Admin(AdminOptions options) : options_(std::move(options)) {}

  http::Admission admit(const http::RequestHead& head) const;
  http::Response handle(const http::Request& request);
  std::optional<http::Response> refuse_bytes(const http::RequestHead& head) const;

  http::Response livez() const;
  http::Response readyz() const;
  http::Response metrics();
  http::Response stats();
  http::Response list(const http::Target& target);
  http::Response get_object(const std::string& key_text, const http::Target& target);
  http::Response put_object(const std::string& key_text, const std::string& body);
  http::Response delete_object(const std::string& key_text);

  // The attachment, made now if there is none. Shared: a request that is still running keeps it
  // across a reconnect.
  Result<std::shared_ptr<Client>> client();

  AdminOptions options_;
  std::unique_ptr<http::Server> server_;
  std::mutex mutex_;  // guards client_: requests of two worker threads may be the first to need it
  std::shared_ptr<Client> client_;
  std::atomic<std::uint64_t> requests_total_ = 0;
  std::atomic<std::uint64_t> refused_total_ = 0;
};

}  // namespace sluice::daemon
