#include "server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/check.h"

namespace sluice::stub {
namespace {

constexpr std::uint64_t kListener = 0, kStop = 1;
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kUnsentBytesMax = 64 * 1024;
constexpr int kPlainReceiveBytes = 1 << 20;
constexpr int kEventsATurn = 64;  // of one stream, so that the others have their turn
constexpr std::string_view kGarbage = "SSH-2.0-stub\r\n\r\n";

std::unexpected<Error> failed(std::string_view call) {
  return fail(Code::kIo, fmt::format("{}: {}", call, std::strerror(errno)));
}

Result<UniqueFd> listen_on(const std::string& host, std::uint16_t port, int receive_bytes) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found) != 0) {
    return fail(Code::kInvalidArgument, fmt::format("{} is no address", host));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd) return failed("socket");
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (receive_bytes != 0) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0) return failed("bind");
  if (::listen(fd.get(), 4096) != 0) return failed("listen");
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  // The port lies at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::optional<Api> api_of(std::string_view path) {
  if (path == "/v1/chat/completions") return Api::kChat;
  if (path == "/v1/completions") return Api::kCompletions;
  if (path == "/v1/responses") return Api::kResponses;
  return {};
}

bool breaks(Script::Do what) {
  return what == Script::Do::kStall || what == Script::Do::kClose || what == Script::Do::kHalf ||
         what == Script::Do::kReset || what == Script::Do::kGarbage;
}

std::string_view name_of(Script::Do what) {
  static constexpr std::array<std::string_view, 10> kNames{
      "whole",  "stall",   "close",   "half",        "reset",
      "status", "garbage", "no_done", "error_event", "raw"};
  return kNames[static_cast<std::size_t>(what)];
}

}  // namespace

Result<std::unique_ptr<Server>> Server::open(ServerOptions options) {
  std::unique_ptr<Server> server(new Server(std::move(options)));
  server->playbook_.set_default(server->options_.script);
  // A benchmark's requests find room at once, so that no window closes and waits for a probe.
  auto listener = listen_on(server->options_.host, server->options_.port,
                            server->options_.plain ? kPlainReceiveBytes : 0);
  if (!listener) return std::unexpected(listener.error());
  server->listener_ = std::move(*listener);
  server->port_ = port_of(server->listener_.get());
  server->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!server->epoll_) return failed("epoll_create1");
  return server;
}

void Server::run(int stop_fd) {
  const auto add = [&](int fd, std::uint64_t id) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  };
  add(listener_.get(), kListener);
  add(stop_fd, kStop);
  std::array<epoll_event, 256> events;
  while (true) {
    int timeout_ms = -1;
    if (!timers_.empty()) {
      const Instant first = timers_.begin()->first, t = now();
      timeout_ms = first <= t ? 0 : static_cast<int>((first - t + kNsPerMs - 1) / kNsPerMs);
    }
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
    CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kStop) return;
      if (event.data.u64 == kListener) {
        accept_all();
        continue;
      }
      Connection& c = *connections_.at(event.data.u64);
      if ((event.events & ~EPOLLOUT) != 0 && !c.dead) on_readable(c);
      if ((event.events & EPOLLOUT) != 0 && !c.dead) flush(c);
      if (!c.dead && !c.exchange) take_requests(c);
    }
    run_timers();
    for (const std::uint64_t id : dead_) connections_.erase(id);
    dead_.clear();
  }
}

void Server::accept_all() {
  while (true) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto c = std::make_unique<Connection>();
    c->id = next_id_++;
    epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = c->id}};
    CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0);
    c->fd = std::move(fd);
    ++journal_.counts.connections;
    ++journal_.counts.connections_open;
    arm(*c, now() + options_.keep_alive_ms * kNsPerMs);
    connections_.emplace(c->id, std::move(c));
  }
}

void Server::on_readable(Connection& c) {
  while (true) {
    const std::size_t missing =
        c.has_head && !c.request.chunked ? c.request.head_bytes + c.request.body_bytes : 0;
    const auto room =
        c.in.room(std::max(kReadBytes, missing - std::min(missing, c.in.text().size())));
    const ssize_t got = ::recv(c.fd.get(), room.data(), room.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      if (c.exchange) {
        ++journal_.counts.cancelled;
        end_exchange(c, "cancelled");
      }
      return drop(c, false);
    }
    c.in.added(static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < room.size()) break;
  }
  take_requests(c);
}

void Server::take_requests(Connection& c) {
  while (!c.dead && !c.exchange && !c.in.empty() && !c.close_after) {
    arm(c, 0);
    if (!c.has_head) {
      const Parsed parsed = parse_head(c.in.text(), c.request);
      if (parsed == Parsed::kIncomplete) return;
      if (parsed == Parsed::kMalformed) {
        ++journal_.counts.malformed;
        c.close_after = true;
        return answer(c, 400, error_object("malformed request", 400));
      }
      c.has_head = true;
    }
    std::string_view body;
    std::size_t used = 0;
    if (!take_body(c, body, used)) return;
    c.has_head = false;
    c.close_after = !c.request.keep_alive;
    handle(c, body);
    c.in.used(used);
  }
}

bool Server::take_body(Connection& c, std::string_view& body, std::size_t& used) {
  const std::string_view rest = c.in.text().substr(c.request.head_bytes);
  if (!c.request.chunked) {
    if (rest.size() < c.request.body_bytes) return false;
    body = rest.substr(0, c.request.body_bytes);
    used = c.request.head_bytes + c.request.body_bytes;
    return true;
  }
  const Parsed parsed = parse_chunked(rest, chunked_body_, used);
  if (parsed == Parsed::kIncomplete) return false;
  if (parsed == Parsed::kMalformed) {
    ++journal_.counts.malformed;
    chunked_body_.clear();
    used = 0;
  }
  used += c.request.head_bytes;
  chunked_body_.reserve(chunked_body_.size() + Buffer::kPadding);
  body = chunked_body_;
  return true;
}

void Server::handle(Connection& c, std::string_view body) {
  const std::string_view path = c.request.path();
  if (path == "/health") {
    ++journal_.counts.probes;
    return answer(c, playbook_.health(), "");
  }
  if (path.starts_with("/stub")) return control(c, body);
  if (!path.starts_with("/v1/")) return answer(c, 404, error_object("no such path", 404));
  begin(c, body);
}

void Server::control(Connection& c, std::string_view body) {
  const auto done = [&](const Status& status) {
    answer(c, status ? 200 : 400,
           status ? std::string("{}") : error_object(status.error().message, 400));
  };
  const std::string& method = c.request.method;
  if (c.request.path() == "/stub/feature") {
    if (!options_.arena) return done(fail(Code::kUnavailable, "no --arena-directory"));
    return done(options_.arena->put(body));
  }
  if (method == "POST") {
    plain_events_.clear();
    return done(playbook_.update(body));
  }
  if (method == "DELETE") {
    const bool cleared = journal_.clear();
    if (cleared) (void)playbook_.update(R"({"clear":true})");
    return done(cleared ? Status{} : fail(Code::kPending, "requests are in flight"));
  }
  answer(
      c, 200,
      journal_.text(options_.engine.role, c.request.target.find("?counts") == std::string::npos));
}

void Server::begin(Connection& c, std::string_view body) {
  ++journal_.counts.requests;
  if (++c.served > 1) ++journal_.counts.reused;
  const std::string_view path = c.request.path();
  const std::optional<Api> api = api_of(path);
  Exchange exchange{.api = api.value_or(Api::kChat)};
  if (options_.plain) {
    exchange.ask = ask_of_ends(body);
  } else if (api) {
    auto ask = ask_of(body, options_.engine.role);
    if (!ask) {
      ++journal_.counts.malformed;
      return answer(c, 400, error_object(ask.error().message, 400));
    }
    exchange.ask = std::move(*ask);
  }
  if (options_.engine.role == "prefill" || options_.engine.role == "encoder") {
    exchange.ask.stream = exchange.ask.stream && !options_.plain;
  }
  if (api && !exchange.ask.scripted) {
    exchange.ask.script = playbook_.take(path);
  }
  if (!options_.plain) {
    exchange.entry = journal_.add(
        {.request = c.request,
         .body = body.size() <= Journal::kBodyBytesMax ? std::string(body) : std::string(),
         .body_bytes = body.size(),
         .ask = exchange.ask,
         .connection = c.id,
         .nth_on_connection = c.served,
         .began = now()});
  }
  journal_.counts.in_flight_max =
      std::max(journal_.counts.in_flight_max, ++journal_.counts.in_flight);
  const std::uint64_t delay_ms = exchange.ask.script.delay_ms;
  c.exchange = std::move(exchange);
  if (path == "/v1/models") {
    c.exchange->stage = Exchange::Stage::kDraining;
    return answer(c, 200, models_answer(options_.engine));
  }
  if (!api) {  // whatever else an engine has: the body comes back
    c.exchange->stage = Exchange::Stage::kDraining;
    const std::string echo = body.empty() ? fmt::format(R"({{"method":"{}","path":"{}"}})",
                                                        c.request.method, c.request.target)
                                          : std::string(body);
    return answer(c, 200, echo);
  }
  if (delay_ms == 0) return perform(c);
  c.exchange->stage = Exchange::Stage::kDelayed;
  arm(c, now() + delay_ms * kNsPerMs);
}

void Server::perform(Connection& c) {
  Exchange& exchange = *c.exchange;
  const Script& script = exchange.ask.script;
  exchange.stage = Exchange::Stage::kDraining;
  if (script.what == Script::Do::kStatus) {
    exchange.outcome = "status";
    return answer(c, script.code, error_object("scripted", script.code), script.headers);
  }
  if (!exchange.has_put) {
    exchange.has_put = true;
    if (auto put = put_results(exchange.ask); !put) {
      return answer(c, 500, error_object(put.error().message, 500));
    }
    if (script.linger_ms != 0) {
      exchange.stage = Exchange::Stage::kDelayed;
      return arm(c, now() + script.linger_ms * kNsPerMs);
    }
  }
  if (breaks(script.what) && !script.after_events) return perform_before(c);
  if (script.what == Script::Do::kRaw) {
    exchange.outcome = "raw";
    c.out += script.body;
    return flush(c);
  }
  if (exchange.ask.stream) return start_stream(c);
  answer(c, 200, whole_answer(exchange.api, exchange.ask, options_.engine), script.headers);
}

// What an engine of this role leaves in the arena.
Status Server::put_results(const Ask& ask) {
  if (!options_.arena) return {};
  const std::string& role = options_.engine.role;
  if (role == "prefill" && ask.remote_decode && ask.script.reason.empty()) {
    return options_.arena->put_handoff(ask.handoff);
  }
  if (role != "encoder" || ask.script.state != "published") return {};
  for (const Part& part : ask.parts) {
    if (auto put = options_.arena->put(identifier_of(part, ask, options_.engine)); !put) return put;
  }
  return {};
}

// Something else than an answer, before its first byte (half: in the middle of it).
void Server::perform_before(Connection& c) {
  Exchange& exchange = *c.exchange;
  exchange.outcome = name_of(exchange.ask.script.what);
  switch (exchange.ask.script.what) {
    case Script::Do::kStall:
      exchange.stage = Exchange::Stage::kStalled;
      return;
    case Script::Do::kReset:
      c.reset_after = true;
      break;
    case Script::Do::kGarbage:
      c.out += kGarbage;
      break;
    case Script::Do::kHalf: {
      const std::string body = whole_answer(exchange.api, exchange.ask, options_.engine);
      c.out += whole_head(200, body.size());
      c.out += std::string_view(body).substr(0, body.size() / 2);
      break;
    }
    default:
      break;
  }
  c.close_after = true;
  flush(c);
}

void Server::start_stream(Connection& c) {
  Exchange& exchange = *c.exchange;
  exchange.stage = Exchange::Stage::kStreaming;
  c.out += stream_head(exchange.ask.script.headers);
  if (!exchange.ask.script.chunks.empty()) {
    for (const std::string& text : exchange.ask.script.chunks) c.out += chunk(text);
    c.out += kLastChunk;
    exchange.stage = Exchange::Stage::kDraining;
    return flush(c);
  }
  exchange.total = token_count(exchange.ask);
  exchange.next_at = now();
  const std::string first = prelude(exchange.api, exchange.ask, options_.engine);
  if (!first.empty()) c.out += chunk(first);
  flush(c);
}

void Server::pump(Connection& c) {
  Exchange& exchange = *c.exchange;
  const Script& script = exchange.ask.script;
  for (int turn = 0; turn < kEventsATurn; ++turn) {
    if (c.dead || c.out.size() - c.sent >= (script.split != 0 ? 1 : kUnsentBytesMax)) return;
    if (act_in_stream(c)) return;
    if (exchange.next == exchange.total) {
      c.out += chunk(epilogue(exchange.api, exchange.ask, options_.engine,
                              script.what != Script::Do::kNoDone));
      c.out += kLastChunk;
      exchange.stage = Exchange::Stage::kDraining;
      return flush(c);
    }
    if (script.interval_ms != 0) {
      if (now() < exchange.next_at) return arm(c, exchange.next_at);
      exchange.next_at += script.interval_ms * kNsPerMs;
    }
    c.out += next_event(exchange);
    ++exchange.next;
    if (exchange.entry != nullptr) exchange.entry->events = exchange.next;
    exchange.stage = Exchange::Stage::kDelayed;  // flush() must not come back here
    flush(c);
    if (c.dead) return;
    exchange.stage = Exchange::Stage::kStreaming;
  }
  arm(c, now());
}

std::string Server::next_event(const Exchange& exchange) {
  const auto make = [&] {
    return chunk(token_event(exchange.api, exchange.ask, options_.engine, exchange.next));
  };
  if (!options_.plain || exchange.api != Api::kChat) return make();
  while (plain_events_.size() <= exchange.next) plain_events_.emplace_back();
  std::string& event = plain_events_[exchange.next];
  if (event.empty()) event = make();
  return event;
}

// True when the script ended the stream, or its progress, here.
bool Server::act_in_stream(Connection& c) {
  Exchange& exchange = *c.exchange;
  const Script& script = exchange.ask.script;
  if (script.what == Script::Do::kAnswer ||
      exchange.next < script.after_events.value_or(exchange.total)) {
    return false;
  }
  exchange.outcome = name_of(script.what);
  exchange.stage = Exchange::Stage::kDraining;
  const std::string event =
      chunk(token_event(exchange.api, exchange.ask, options_.engine, exchange.next));
  switch (script.what) {
    case Script::Do::kStall:
      exchange.stage = Exchange::Stage::kStalled;
      return true;
    case Script::Do::kHalf:
      c.out += std::string_view(event).substr(0, event.size() / 2);
      break;
    case Script::Do::kGarbage:
      c.out += "zz\r\n" + event;
      break;
    case Script::Do::kReset:
      c.reset_after = true;
      break;
    case Script::Do::kErrorEvent:
      c.out += chunk("data: " + error_object("scripted", 500) + "\n\n");
      c.out += chunk("data: [DONE]\n\n");
      c.out += kLastChunk;
      flush(c);
      return true;
    case Script::Do::kNoDone:
      c.out += kLastChunk;
      flush(c);
      return true;
    default:
      break;
  }
  c.close_after = true;
  flush(c);
  return true;
}

void Server::answer(Connection& c, std::uint64_t status, std::string_view body,
                    std::string_view more) {
  c.out += whole_head(status, body.size(), more, c.close_after);
  c.out += body;
  flush(c);
}

void Server::flush(Connection& c) {
  const std::uint64_t split = c.exchange ? c.exchange->ask.script.split : 0;
  while (c.sent < c.out.size()) {
    std::size_t size = c.out.size() - c.sent;
    if (split != 0) size = std::min<std::size_t>(size, split);
    const ssize_t sent = ::send(c.fd.get(), c.out.data() + c.sent, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return watch(c, true);
    if (sent < 0) {
      if (c.exchange) {
        ++journal_.counts.cancelled;
        end_exchange(c, "cancelled");
      }
      return drop(c, false);
    }
    c.sent += static_cast<std::size_t>(sent);
    if (split != 0 && c.sent < c.out.size()) return arm(c, now());
  }
  c.out.clear();
  c.sent = 0;
  if (c.wants_out) watch(c, false);
  drained(c);
}

// Everything that was to be sent has left.
void Server::drained(Connection& c) {
  if (c.exchange) {
    if (c.exchange->stage == Exchange::Stage::kStreaming) return pump(c);
    if (c.exchange->stage != Exchange::Stage::kDraining) return;
    end_exchange(c, c.exchange->outcome);
  }
  if (c.close_after || c.reset_after) return drop(c, c.reset_after);
  arm(c, now() + options_.keep_alive_ms * kNsPerMs);
}

void Server::end_exchange(Connection& c, std::string_view outcome) {
  --journal_.counts.in_flight;
  if (Entry* entry = c.exchange->entry; entry != nullptr) {
    entry->outcome = outcome;
    entry->ended = now();
  }
  c.exchange.reset();
}

void Server::drop(Connection& c, bool reset) {
  if (c.dead) return;
  arm(c, 0);
  if (reset) {
    const linger now_{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(c.fd.get(), SOL_SOCKET, SO_LINGER, &now_, sizeof now_);
  }
  c.fd.reset();
  c.dead = true;
  --journal_.counts.connections_open;
  dead_.push_back(c.id);
}

void Server::arm(Connection& c, Instant when) {
  if (c.timer != 0) timers_.erase({c.timer, c.id});
  c.timer = when;
  if (when != 0) timers_.emplace(when, c.id);
}

void Server::run_timers() {
  const Instant t = now();
  while (!timers_.empty() && timers_.begin()->first <= t) {
    Connection& c = *connections_.at(timers_.begin()->second);
    arm(c, 0);
    if (!c.exchange) {
      if (c.sent < c.out.size()) {
        flush(c);
      } else {
        ++journal_.counts.closed_idle;
        drop(c, false);
      }
    } else if (c.exchange->stage == Exchange::Stage::kDelayed) {
      perform(c);
      if (!c.dead && !c.exchange) take_requests(c);
    } else {
      flush(c);
      if (!c.dead && !c.exchange) take_requests(c);
    }
  }
}

void Server::watch(Connection& c, bool out) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0u), .data = {.u64 = c.id}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.fd.get(), &event) == 0);
  c.wants_out = out;
}

}  // namespace sluice::stub
