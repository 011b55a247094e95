#include "common/line_stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string_view>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include "base/clock.h"

namespace sluice::app {
namespace {

// A pipe that can be written to takes as much (PIPE_BUF) without waiting, and in one piece.
constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kKeptBackBytes = 16 * kPieceBytes;
constexpr int kLookMs = 100;  // at a stream that takes nothing, whether it is time to leave

// A thread made meanwhile takes no signal: not one that a watcher waits for, and no SIGPIPE.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// Everything but lost() and leave() is the writing thread's alone.
class StreamSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  StreamSink(int fd, std::function<std::string(std::uint64_t)> loss)
      : fd_(fd), loss_(std::move(loss)) {}

  // Before the first message. The queue joins its thread when it ends, so that it outlives every
  // use here; were it shared with that thread, the thread could be the one that ends it.
  void feed_from(spdlog::details::thread_pool& queue) noexcept { queue_ = &queue; }
  // What the stream has not taken until then is lost.
  void leave(Instant deadline) noexcept { leave_.store(deadline, std::memory_order_relaxed); }

  std::uint64_t lost() const {
    return refused_.load(std::memory_order_relaxed) + queue_->overrun_counter();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (const std::uint64_t lost = this->lost(); lost != said_) {
      const std::string text = loss_(lost - std::exchange(said_, lost));
      append({message.logger_name, spdlog::level::warn, text});
    }
    append(message);
    if (text_.size() >= kKeptBackBytes) write_out();
  }

  void flush_() override { write_out(); }

 private:
  void append(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    text_.append(line.data(), line.size());
  }

  void write_out() {
    std::string_view left = text_;
    while (!left.empty() && wait_for_room()) {
      std::string_view piece = left.substr(0, kPieceBytes);
      // Whole lines, so that another process's lines on the same pipe stand between them.
      if (const auto end = piece.rfind('\n'); end != std::string_view::npos)
        piece = piece.substr(0, end + 1);
      const ssize_t n = ::write(fd_, piece.data(), piece.size());
      if (n >= 0) {
        left.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno != EINTR && errno != EAGAIN) {
        break;
      }
    }
    refused_.fetch_add(static_cast<std::uint64_t>(std::ranges::count(left, '\n')),
                       std::memory_order_relaxed);
    text_.clear();
  }

  bool wait_for_room() const noexcept {
    pollfd stream{fd_, POLLOUT, 0};
    for (;;) {
      if (now() >= leave_.load(std::memory_order_relaxed)) return false;
      if (::poll(&stream, 1, kLookMs) > 0) return true;  // an error is the next write's to report
    }
  }

  const int fd_;
  const std::function<std::string(std::uint64_t)> loss_;
  spdlog::details::thread_pool* queue_ = nullptr;
  std::string text_;
  std::uint64_t said_ = 0;  // lost lines that the stream was told of
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<Instant> leave_{kFarFuture};
};

}  // namespace

struct LineStream::Parts {
  std::shared_ptr<StreamSink> sink;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

LineStream::LineStream(int fd, const std::string& name, const std::string& pattern,
                       std::function<std::string(std::uint64_t)> loss)
    : parts_(std::make_unique<Parts>()) {
  const SignalsBlocked blocked;
  parts_->sink = std::make_shared<StreamSink>(fd, std::move(loss));
  parts_->pool = std::make_shared<spdlog::details::thread_pool>(kLinesMax, 1);
  parts_->sink->feed_from(*parts_->pool);
  parts_->logger = std::make_shared<spdlog::async_logger>(
      name, parts_->sink, parts_->pool, spdlog::async_overflow_policy::overrun_oldest);
  parts_->logger->set_pattern(pattern);
}

LineStream::~LineStream() {
  parts_->sink->leave(now() + kLeaveMs * kNsPerMs);
  parts_->logger->flush();
  parts_->pool.reset();  // joins its thread, which uses the others until then
}

spdlog::logger& LineStream::logger() const noexcept {
  return *parts_->logger;
}

void LineStream::flush() const {
  if (parts_->pool->queue_size() == 0) parts_->logger->flush();
}

std::uint64_t LineStream::lost() const noexcept {
  return parts_->sink->lost();
}

}  // namespace sluice::app
