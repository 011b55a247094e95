// front_fixture.h: a running server for tests, with handlers by path and a count of what they saw.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "http/front.h"

namespace sluice::http {

// Made outside of coroutines: g++ 12 compiles no initializer lists around a co_await.
inline std::vector<Header> header_list(std::string name, std::string value) {
  std::vector<Header> out;
  out.emplace_back(std::move(name), std::move(value));
  return out;
}

// One piece, as write() takes it.
inline boost::asio::awaitable<Status> write_one(Exchange& exchange, std::string_view text) {
  co_return co_await exchange.write(std::span(&text, 1));
}

// Answers "METHOD TARGET BODY".
inline boost::asio::awaitable<void> echo(std::size_t, Exchange& exchange) {
  auto body = co_await exchange.read_body(32 << 20);
  if (!body) co_return;
  std::string text = exchange.head().method + " " + exchange.head().target + " ";
  text.append(body->text());
  static_cast<void>(
      co_await exchange.answer(200, header_list("Content-Type", "text/plain"), std::move(text)));
}

class TestFront {
 public:
  explicit TestFront(FrontOptions options = {}) {
    handle_ = options.handle ? std::move(options.handle) : echo;
    options.handle = [this](std::size_t thread, Exchange& exchange) {
      ++requests_;
      return handle_(thread, exchange);
    };
    options.log = [this](std::string_view what, unsigned status) {
      const std::scoped_lock lock(mutex_);
      logged_.push_back(std::to_string(status) + " " + std::string(what));
    };
    auto opened = Front::open(std::move(options));
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    front_ = std::move(*opened);
    front_->start();
  }

  Front* operator->() noexcept { return front_.get(); }
  std::uint16_t port() const noexcept { return front_->port(); }
  std::size_t requests() const noexcept { return requests_; }
  std::vector<std::string> logged() {
    const std::scoped_lock lock(mutex_);
    return logged_;
  }

 private:
  std::function<boost::asio::awaitable<void>(std::size_t, Exchange&)> handle_;
  std::atomic<std::size_t> requests_ = 0;
  std::mutex mutex_;
  std::vector<std::string> logged_;
  std::unique_ptr<Front> front_;  // last: its handlers use the others
};

// Waits, with a patience, for what another thread brings about.
inline bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace sluice::http
