// upstream_fixture.h: engines that do what a test tells them, byte for byte, and one thread of
// requests to them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "http/upstream.h"

namespace sluice::http {

// What an engine sees of one connection. Blocking, in a thread of its own.
class EngineSide {
 public:
  EngineSide(UniqueFd fd, std::size_t number) : fd_(std::move(fd)), number_(number) {}

  std::size_t number() const noexcept { return number_; }  // 0: the engine's first connection

  // One request with its body. Empty when the other side closed before it was whole.
  std::string read_request() {
    for (;;) {
      const auto end = seen_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const auto at = seen_.find("Content-Length: ");
        const std::size_t body = at < end ? std::stoul(seen_.substr(at + 16)) : 0;
        if (seen_.size() >= end + 4 + body) {
          std::string out = seen_.substr(0, end + 4 + body);
          seen_.erase(0, out.size());
          return out;
        }
      }
      if (!receive()) return {};
    }
  }
  // Its header alone.
  std::string read_head() {
    while (seen_.find("\r\n\r\n") == std::string::npos) {
      if (!receive()) return {};
    }
    return seen_.substr(0, seen_.find("\r\n\r\n") + 4);
  }
  void send(std::string_view bytes) const noexcept {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Without reading what has come.
  void wait_for_reset() const noexcept {
    pollfd one{.fd = fd_.get(), .events = POLLRDHUP, .revents = 0};
    ::poll(&one, 1, 20'000);
  }
  void wait_for_close() {
    while (receive()) {
    }
  }

 private:
  bool receive() {
    char block[16 * 1024];
    const ssize_t got = ::recv(fd_.get(), block, sizeof block, 0);
    if (got <= 0) return false;
    seen_.append(block, static_cast<std::size_t>(got));
    return true;
  }

  UniqueFd fd_;
  std::size_t number_;
  std::string seen_;
};

// Runs `script` for each connection and closes it when that returns.
class ScriptedEngine {
 public:
  explicit ScriptedEngine(std::function<void(EngineSide&)> script)
      : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 128), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedEngine() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept()
    acceptor_.join();
    for (auto& thread : threads_) thread.join();
  }
  ScriptedEngine(const ScriptedEngine&) = delete;
  ScriptedEngine& operator=(const ScriptedEngine&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  std::size_t connections() const noexcept { return connections_; }
  std::size_t closed() const noexcept { return closed_; }

 private:
  void accept_all() {
    for (;;) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) return;
      const timeval patience{.tv_sec = 20, .tv_usec = 0};
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      const std::size_t number = connections_++;
      threads_.emplace_back([this, number, held = std::move(fd)]() mutable {
        {
          EngineSide side(std::move(held), number);
          script_(side);
        }
        ++closed_;
      });
    }
  }

  std::function<void(EngineSide&)> script_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::size_t> connections_ = 0;
  std::atomic<std::size_t> closed_ = 0;
  std::vector<std::thread> threads_;  // the acceptor's until it is joined
  std::thread acceptor_;
};

inline UpstreamOptions options_to(std::uint16_t port) {
  UpstreamOptions options;
  options.endpoint = {.host = "127.0.0.1", .port = port};
  return options;
}

inline UpstreamRequest post(std::string target, std::span<const std::string_view> body) {
  return {.target = std::move(target),
          .headers = {{"Content-Type", "text/plain"}},
          .body = body,
          .deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10)};
}

inline UpstreamRequest get(std::string target,
                           std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  return {.method = "GET",
          .target = std::move(target),
          .headers = {},
          .body = {},
          .deadline = std::chrono::steady_clock::now() + patience};
}

// What came of a request: its whole body, or why not.
struct Outcome {
  unsigned status = 0;
  std::string body;
  Code code = Code::kInternal;  // when status is 0, or the body broke off
  bool whole = false;
};

inline boost::asio::awaitable<Outcome> fetch(Upstream& upstream, const UpstreamRequest& request,
                                             StopSource* stop = nullptr) {
  Outcome out;
  auto call = co_await upstream.send(request, stop);
  if (!call) {
    out.code = call.error().code;
    co_return out;
  }
  out.status = (*call)->status();
  auto body = co_await (*call)->read_all(64 << 20);
  out.whole = body.has_value();
  if (body) {
    out.body = std::move(*body);
  } else {
    out.code = body.error().code;
  }
  co_return out;
}

// Runs `work` on an io_context of its own with an upstream; a hang is a failure.
template <class Work>
void with_upstream(UpstreamOptions options, Work work) {
  boost::asio::io_context io{1};
  auto upstream = Upstream::make(io, std::move(options));
  const auto all = [&]() -> boost::asio::awaitable<void> {
    co_await work(*upstream);
    io.stop();
  };
  auto done = boost::asio::co_spawn(io, all(), boost::asio::use_future);
  io.run_for(std::chrono::seconds(30));
  EXPECT_TRUE(io.stopped()) << "it hangs";
  upstream.reset();
  if (done.wait_for(std::chrono::seconds(0)) == std::future_status::ready) done.get();
}

}  // namespace sluice::http
