#include "http/front.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/check.h"
#include "http/connection.h"
#include "http/listen.h"
#include "http/watchdog.h"

namespace sluice::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{50};  // out of descriptors: breathe
// What a worker says 503 to at one time; beyond it connections are closed unanswered.
constexpr std::size_t kTurnedAwayMax = 256;
// How long stop() lets handlers return after their clients were cut off.
constexpr std::chrono::milliseconds kStopGrace{5'000};

// Connections of all workers, counted, and told when the last is gone.
class Census {
 public:
  bool enter(std::size_t most) noexcept {
    if (count_.fetch_add(1) < most) return true;
    leave();
    return false;
  }
  void leave() noexcept {
    if (count_.fetch_sub(1) != 1 || !watched_.load()) return;
    const std::scoped_lock lock(mutex_);
    empty_.notify_all();
  }
  std::size_t count() const noexcept { return count_.load(); }
  bool wait_until_empty(std::chrono::milliseconds timeout) {
    watched_.store(true);
    std::unique_lock lock(mutex_);
    return empty_.wait_for(lock, timeout, [this] { return count() == 0; });
  }

 private:
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> watched_{false};
  std::mutex mutex_;
  std::condition_variable empty_;
};

class Worker {
 public:
  Worker(const FrontOptions& options, std::size_t thread, Census& census)
      : options_(options),
        census_(census),
        acceptor_(io_),
        watchdog_(io_),
        host_{.options = options, .thread = thread, .watchdog = watchdog_, .view = {}, .date = {}} {
  }
  ~Worker() {
    // Coroutines that never came back die with io_, and their connections with them.
    for (auto& connection : connections_) connection.give_up();
  }

  tcp::acceptor& acceptor() noexcept { return acceptor_; }
  asio::io_context& io() noexcept { return io_; }

  void start() {
    asio::co_spawn(io_, accept_loop(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }

  void drain() {
    asio::post(io_, [this] {
      close_acceptor();
      for (auto next = connections_.begin(); next != connections_.end();) {
        auto& connection = *next++;
        if (connection.idle()) connection.close();
      }
    });
  }

  void cut_off() {
    asio::post(io_, [this] {
      close_acceptor();
      for (auto next = connections_.begin(); next != connections_.end();) {
        auto& connection = *next++;
        connection.cut_off();
      }
    });
  }

  void join() {
    if (!thread_.joinable()) return;
    io_.stop();
    thread_.join();
  }

 private:
  using Connections = boost::intrusive::list<
      Connection, boost::intrusive::member_hook<Connection, Connection::Hook, &Connection::hook>,
      boost::intrusive::constant_time_size<false>>;

  void close_acceptor() {
    host_.draining = true;
    error_code ignored;
    static_cast<void>(acceptor_.close(ignored));
  }

  asio::awaitable<void> accept_loop();
  void take(tcp::socket socket, const tcp::endpoint& peer);
  asio::awaitable<void> serve(std::shared_ptr<Connection> connection);
  asio::awaitable<void> turn_away(std::shared_ptr<Connection> connection);

  const FrontOptions& options_;
  Census& census_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  Watchdog watchdog_;
  ConnectionHost host_;
  Connections connections_;
  std::size_t turned_away_ = 0;
  std::thread thread_;
};

asio::awaitable<void> Worker::accept_loop() {
  while (!host_.draining) {
    error_code error;
    tcp::endpoint peer;
    tcp::socket socket =
        co_await acceptor_.async_accept(peer, asio::redirect_error(asio::use_awaitable, error));
    if (host_.draining) co_return;
    if (!error) {
      try {
        take(std::move(socket), peer);
      } catch (const std::exception&) {
        // Dropped: without memory for it the socket is closed, the others go on.
      }
      continue;
    }
    asio::steady_timer pause(io_, kAcceptPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

void Worker::take(tcp::socket socket, const tcp::endpoint& peer) {
  auto connection =
      std::make_shared<Connection>(host_, std::move(socket), peer.address().to_string());
  if (census_.enter(options_.limits.connections_max)) {
    asio::co_spawn(io_, serve(std::move(connection)), asio::detached);
    return;
  }
  if (options_.log) options_.log("a connection beyond the server's number was turned away", 503);
  if (turned_away_ < kTurnedAwayMax) {
    asio::co_spawn(io_, turn_away(std::move(connection)), asio::detached);
  }
}

asio::awaitable<void> Worker::serve(std::shared_ptr<Connection> connection) {
  connections_.push_back(*connection);
  co_await connection->run();
  connection->hook.unlink();
  connection.reset();
  census_.leave();
}

asio::awaitable<void> Worker::turn_away(std::shared_ptr<Connection> connection) {
  connections_.push_back(*connection);
  ++turned_away_;
  co_await connection->turn_away();
  --turned_away_;
}

class FrontImpl final : public Front {
 public:
  explicit FrontImpl(FrontOptions options) : options_(std::move(options)) {}
  ~FrontImpl() override { stop(); }

  Status listen() {
    ListenOptions listen{.host = options_.host,
                         .port = options_.port,
                         .send_buffer_bytes = options_.limits.stream_buffer_bytes_max};
    const std::size_t threads = std::max<std::size_t>(options_.threads, 1);
    for (std::size_t thread = 0; thread < threads; ++thread) {
      workers_.push_back(std::make_unique<Worker>(options_, thread, census_));
      auto& acceptor = workers_.back()->acceptor();
      if (auto status = bind_acceptor(acceptor, listen, thread == 0); !status) return status;
      error_code error;
      listen.port = acceptor.local_endpoint(error).port();
    }
    port_ = listen.port;
    for (const auto& worker : workers_) {
      if (auto status = start_listening(worker->acceptor(), listen); !status) return status;
    }
    return {};
  }

  std::uint16_t port() const noexcept override { return port_; }
  std::size_t connections() const noexcept override { return census_.count(); }
  asio::io_context& context(std::size_t thread) noexcept override {
    CHECK(thread < workers_.size());
    return workers_[thread]->io();
  }

  void start() override {
    CHECK(!running_);
    running_ = true;
    for (const auto& worker : workers_) worker->start();
  }

  bool drain(std::chrono::milliseconds timeout) override {
    if (!running_) return true;
    for (const auto& worker : workers_) worker->drain();
    return census_.wait_until_empty(timeout);
  }

  void stop() override {
    if (!running_) return;
    running_ = false;
    for (const auto& worker : workers_) worker->cut_off();
    static_cast<void>(census_.wait_until_empty(kStopGrace));
    for (const auto& worker : workers_) worker->join();
  }

 private:
  FrontOptions options_;
  Census census_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::uint16_t port_ = 0;
  bool running_ = false;
};

}  // namespace

Result<std::unique_ptr<Front>> Front::open(FrontOptions options) {
  auto front = std::make_unique<FrontImpl>(std::move(options));
  if (auto status = front->listen(); !status) return std::unexpected(std::move(status.error()));
  return front;
}

}  // namespace sluice::http
