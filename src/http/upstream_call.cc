#include "http/upstream_call.h"

#include <algorithm>
#include <cstring>

#include "http/unfilled.h"

namespace sluice::http {

namespace asio = boost::asio;

UpstreamCall::UpstreamCall(std::shared_ptr<LinkPool> pool, std::unique_ptr<Link> link,
                           StopGuard guard, const ResponseView& head)
    : pool_(std::move(pool)),
      link_(std::move(link)),
      guard_(std::move(guard)),
      status_(head.status),
      body_(head.body),
      keep_alive_(head.keep_alive),
      done_(head.body == BodyKind::kNone || (head.body == BodyKind::kLength && head.length == 0)),
      left_(head.length) {
  headers_.reserve(head.fields.size());
  for (const auto& [name, value] : head.fields) headers_.emplace_back(name, value);
}

UpstreamCall::~UpstreamCall() {
  release();
}

std::string_view UpstreamCall::header(std::string_view name) const noexcept {
  for (const auto& [known, value] : headers_) {
    if (equal_ignoring_case(known, name)) return value;
  }
  return {};
}

void UpstreamCall::cancel() noexcept {
  if (link_) link_->stop();
}

void UpstreamCall::release() noexcept {
  guard_.release();
  auto link = std::move(link_);
  if (!link || !done_ || broken_ || !keep_alive_ || link->stopped()) return;
  link->buffer().consume(handed_);
  handed_ = 0;
  if (!link->buffer().empty()) return;  // it said more than its answer
  try {
    pool_->put(std::move(link));
  } catch (const std::exception&) {
    // Dropped: without memory to remember it by it is closed.
  }
}

std::unexpected<Error> UpstreamCall::broken(Error error) noexcept {
  broken_ = true;
  release();
  return std::unexpected(std::move(error));
}

// What of the body is in the buffer; handed out until the next call.
Result<std::string_view> UpstreamCall::take() {
  if (body_ == BodyKind::kChunked) return take_chunks();
  auto bytes = link_->buffer().bytes();
  if (body_ == BodyKind::kLength) {
    bytes = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
    left_ -= bytes.size();
    done_ = left_ == 0;
  }
  handed_ = bytes.size();
  return bytes;
}

// Chunks that came together are moved together, so that they can leave in one write.
Result<std::string_view> UpstreamCall::take_chunks() {
  const auto held = link_->buffer().held();
  std::size_t start = 0;
  std::size_t end = 0;
  handed_ = 0;
  while (handed_ < held.size() && !chunks_.done()) {
    const auto step = chunks_.next({held.data() + handed_, held.size() - handed_});
    if (!chunks_.error().empty()) {
      return fail(Code::kIo, std::string(chunks_.error()), Drop::kTransfer);
    }
    handed_ += step.consumed;
    if (step.data.empty()) continue;
    if (end == 0) {
      start = end = handed_ - step.data.size();
    } else {
      std::memmove(held.data() + end, step.data.data(), step.data.size());
    }
    end += step.data.size();
  }
  done_ = chunks_.done();
  return std::string_view(held.data() + start, end - start);
}

asio::awaitable<Result<std::string_view>> UpstreamCall::read() {
  if (broken_) co_return fail(Code::kIo, "the answer ended in an error before", Drop::kTransfer);
  for (;;) {
    if (link_) link_->buffer().consume(std::exchange(handed_, 0));
    if (done_) {
      release();
      co_return std::string_view();
    }
    if (!link_->stopped() && !link_->buffer().empty()) {
      auto taken = take();
      if (!taken) co_return broken(std::move(taken.error()));
      if (!taken->empty()) co_return *taken;
      continue;
    }
    std::size_t got = 0;
    if (auto status = co_await link_->fill(got); !status) {
      co_return broken(std::move(status.error()));
    }
    if (got > 0) continue;
    if (body_ != BodyKind::kUntilClose) {
      co_return broken({.code = Code::kIo,
                        .drop = Drop::kTransfer,
                        .message = "the engine closed in the middle of its answer"});
    }
    done_ = true;
  }
}

asio::awaitable<Result<std::string>> UpstreamCall::read_all(std::size_t bytes_max) {
  if (body_ == BodyKind::kLength && !done_ && !broken_) co_return co_await read_length(bytes_max);
  std::string all;
  for (;;) {
    auto piece = co_await read();
    if (!piece) co_return std::unexpected(std::move(piece.error()));
    if (piece->empty()) co_return all;
    if (piece->size() > bytes_max - all.size()) {
      co_return broken({.code = Code::kLimit,
                        .drop = Drop::kTransfer,
                        .message = "the engine's answer is larger than it may be"});
    }
    all.append(*piece);
  }
}

// Straight into the string.
asio::awaitable<Result<std::string>> UpstreamCall::read_length(std::size_t bytes_max) {
  if (left_ > bytes_max) {
    co_return broken({.code = Code::kLimit,
                      .drop = Drop::kTransfer,
                      .message = "the engine's answer is larger than it may be"});
  }
  std::string all;
  resize_unfilled(all, static_cast<std::size_t>(left_));
  auto& buffer = link_->buffer();
  buffer.consume(std::exchange(handed_, 0));
  std::size_t size = std::min(all.size(), buffer.size());
  std::memcpy(all.data(), buffer.bytes().data(), size);
  buffer.consume(size);
  while (size < all.size()) {
    std::size_t got = 0;
    auto status = co_await link_->read_to(all.data() + size, all.size() - size, got);
    if (status && got == 0) {
      status = fail(Code::kIo, "the engine closed in the middle of its answer", Drop::kTransfer);
    }
    if (!status) co_return broken(std::move(status.error()));
    size += got;
  }
  left_ = 0;
  done_ = true;
  release();
  co_return all;
}

}  // namespace sluice::http
