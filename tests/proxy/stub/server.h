// server.h: the scripted engine itself: one thread, one epoll, HTTP/1.1 with keep-alive.
//
// Invariant: a connection that has idled for `keep_alive` is closed then, whatever is on its way: the
//            race that every engine offers its proxy. A request whose client has gone is ended at once.
// Threads:   run() on one thread; it returns when `stop_fd` can be read.
// Failure:   open() as the system calls say. Nothing that a peer sends stops the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sluice/error.h>

#include "answers.h"
#include "arena_side.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "buffer.h"
#include "incoming.h"
#include "journal.h"
#include "script.h"

namespace sluice::stub {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::uint64_t keep_alive_ms = 5000;
  Engine engine;
  Script script;       // for every request, until the control endpoint says otherwise
  bool plain = false;  // for benchmarks: looks at the ends of a body only, keeps no journal
  std::optional<ArenaSide> arena;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> open(ServerOptions options);
  std::uint16_t port() const noexcept { return port_; }
  void run(int stop_fd);

 private:
  // One request being answered.
  struct Exchange {
    Api api = Api::kChat;
    Ask ask;
    Entry* entry = nullptr;             // of the journal; null when it keeps no more
    std::uint64_t next = 0, total = 0;  // tokens of a stream
    Instant next_at = 0;
    bool has_put = false;  // what it leaves in the arena
    enum class Stage : std::uint8_t { kDelayed, kStreaming, kStalled, kDraining } stage{};
    std::string outcome = "whole";
  };
  struct Connection {
    UniqueFd fd;
    std::uint64_t id = 0;
    Buffer in;
    std::string out;
    std::size_t sent = 0;
    Incoming request;
    bool has_head = false, wants_out = false, dead = false;
    bool close_after = false, reset_after = false;
    std::uint64_t served = 0;
    Instant timer = 0;
    std::optional<Exchange> exchange;
  };

  explicit Server(ServerOptions options) : options_(std::move(options)) {}

  void accept_all();
  void on_readable(Connection& c);
  void take_requests(Connection& c);
  bool take_body(Connection& c, std::string_view& body, std::size_t& used);
  void handle(Connection& c, std::string_view body);
  void control(Connection& c, std::string_view body);
  void begin(Connection& c, std::string_view body);
  void perform(Connection& c);
  Status put_results(const Ask& ask);
  void perform_before(Connection& c);
  void start_stream(Connection& c);
  void pump(Connection& c);
  std::string next_event(const Exchange& exchange);
  bool act_in_stream(Connection& c);
  void answer(Connection& c, std::uint64_t status, std::string_view body,
              std::string_view more = {});
  void flush(Connection& c);
  void drained(Connection& c);
  void end_exchange(Connection& c, std::string_view outcome);
  void drop(Connection& c, bool reset);
  void arm(Connection& c, Instant when);
  void run_timers();
  void watch(Connection& c, bool out);

  ServerOptions options_;
  Playbook playbook_;
  Journal journal_;
  UniqueFd listener_, epoll_;
  std::uint16_t port_ = 0;
  std::uint64_t next_id_ = 2;  // 0: the listener, 1: stop_fd
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::set<std::pair<Instant, std::uint64_t>> timers_;
  std::vector<std::uint64_t> dead_;
  std::string chunked_body_;
  std::vector<std::string> plain_events_;  // a benchmark's events, which are all alike
};

}  // namespace sluice::stub
