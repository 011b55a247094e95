#include "http/connection.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <exception>

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "base/check.h"
#include "http/unfilled.h"

namespace sluice::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";
constexpr std::string_view kChunkEnd = "\r\n";

// Of what a client still sends after a refusal; read and dropped, since closing at once would reset
// the connection before it has read the answer.
constexpr std::size_t kLingerBytesMax = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kLingerTime{2'000};

// Chunks smaller than this pass through the connection's buffer.
constexpr std::size_t kDirectReadBytes = 4 * 1024;

std::unexpected<Error> gone() {
  return fail(Code::kUnavailable, "the client has gone", Drop::kPeer);
}

}  // namespace

Connection::Connection(ConnectionHost& host, Socket socket, std::string peer)
    : host_(host), socket_(std::move(socket)) {
  head_.peer = std::move(peer);
}

// ---- the connection

asio::awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  try {
    // Two statements: g++ 12 evaluates the second co_await of an && whatever the first says.
    for (bool keep = true; keep;) {
      keep = co_await next_request();
      if (keep) keep = co_await serve();
    }
  } catch (const std::exception&) {
    // Dropped: a failed allocation ends this connection, nothing else.
  }
  close();
}

asio::awaitable<void> Connection::turn_away() {
  const auto self = shared_from_this();
  try {
    keep_alive_ = false;
    std::vector<Header> fields;
    fields.emplace_back("Retry-After", "1");
    fields.emplace_back("Content-Type", "application/json");
    auto body = error_object("the server has as many connections as it takes; try again",
                             "server_error", "too_many_connections");
    if (co_await answer(503, std::move(fields), std::move(body))) co_await linger();
  } catch (const std::exception&) {
    // Dropped: as in run().
  }
  close();
}

void Connection::close() noexcept {
  Watchdog::never(*this);
  error_code ignored;
  static_cast<void>(socket_.close(ignored));
}

void Connection::cut_off() {
  lost();
  close();
  tell_gone();
}

void Connection::tell_gone() {
  if (!in_handler_) return;
  if (const auto callback = std::exchange(on_gone_, nullptr)) callback();
}

void Connection::on_deadline() {
  timed_out_ = true;
  error_code ignored;
  static_cast<void>(socket_.cancel(ignored));
}

void Connection::log(std::string_view what, unsigned status) const {
  if (host_.options.log) host_.options.log(what, status);
}

void Connection::lost() noexcept {
  gone_ = true;
  keep_alive_ = false;
}

// ---- reading

void Connection::arm_read() {
  if (input_.reading() || gone_) return;
  if (!socket_.is_open()) return lost();
  if (!input_.make_room(host_.options.limits.header_bytes_max)) return;
  const auto room = input_.begin_read();
  socket_.async_read_some(asio::buffer(room.data(), room.size()),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            self->after_read(error, bytes);
                          });
}

void Connection::after_read(const error_code& error, std::size_t bytes) {
  input_.commit(bytes);
  if (error && !timed_out_) lost();
  if (waiter_) {
    auto waiter = std::exchange(waiter_, nullptr);
    waiter();
  } else if (error) {
    tell_gone();
  } else if (in_handler_) {
    arm_read();
  }
}

// Until the read under way has ended; the caller looks at input_, gone_ and timed_out_.
asio::awaitable<void> Connection::wait_for_input() {
  arm_read();
  if (!input_.reading()) co_return;
  auto token = asio::use_awaitable;
  co_await asio::async_initiate<decltype(token), void()>(
      [this](auto handler) {
        waiter_ = [done = std::move(handler)]() mutable { std::move(done)(); };
      },
      token);
}

asio::awaitable<bool> Connection::next_request() {
  const auto& limits = host_.options.limits;
  const HeadLimits head_limits{.bytes_max = limits.header_bytes_max,
                               .fields_max = limits.fields_max};
  timed_out_ = false;
  head_.method.clear();
  head_.headers.clear();
  if (input_.empty()) {
    input_.shrink();
    idle_ = true;
    host_.watchdog.expires_after(*this, limits.idle_timeout);
    if (!host_.draining) co_await wait_for_input();
    idle_ = false;
    if (input_.empty()) co_return false;
  }
  host_.watchdog.expires_after(*this, limits.header_timeout);
  for (;;) {
    const HeadCheck check = check_request(input_.bytes(), head_limits, host_.view);
    if (check.verdict == Verdict::kComplete) {
      Watchdog::never(*this);
      take_head(host_.view);
      input_.consume(check.bytes);
      co_return true;
    }
    if (check.verdict == Verdict::kRefused) {
      co_await refuse(check.refusal);
      co_return false;
    }
    if (gone_ || timed_out_) break;
    co_await wait_for_input();
  }
  if (timed_out_) {
    Refusal late{.status = 408,
                 .code = "header_timeout",
                 .what = "the request's header took too long to arrive"};
    co_await refuse(late);
  }
  co_return false;
}

void Connection::take_head(const RequestView& view) {
  head_.method.assign(view.method);
  head_.target.assign(view.target);
  head_.headers.clear();
  head_.headers.reserve(view.fields.size());
  for (const auto& [name, value] : view.fields) head_.headers.emplace_back(name, value);
  head_.content_length.reset();
  if (view.body == BodyKind::kLength) head_.content_length = view.length;
  body_ = view.body;
  chunks_ = ChunkDecoder();
  body_done_ = body_ == BodyKind::kNone || (body_ == BodyKind::kLength && view.length == 0);
  body_asked_ = false;
  expects_continue_ = view.expects_continue;
  refusal_ = {.status = 500, .code = "internal_error", .what = "the request could not be served"};
  version_ = view.version;
  keep_alive_ = view.keep_alive && !gone_;
  begun_ = ended_ = false;
  status_ = 0;
  out_.clear();
}

// More of the body into the buffer.
asio::awaitable<Status> Connection::read_more() {
  host_.watchdog.expires_after(*this, host_.options.limits.body_idle_timeout);
  co_await wait_for_input();
  if (gone_ || timed_out_) co_return body_read_failed();
  co_return Status();
}

// At least one byte, straight to its place; none while a read into the buffer is under way, which
// gets the next bytes.
asio::awaitable<Status> Connection::read_to(char* place, std::size_t bytes, std::size_t& got) {
  got = 0;
  if (input_.reading()) co_return co_await read_more();
  host_.watchdog.expires_after(*this, host_.options.limits.body_idle_timeout);
  error_code error;
  got = co_await socket_.async_read_some(asio::buffer(place, bytes),
                                         asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return body_read_failed();
  co_return Status();
}

Status Connection::body_read_failed() noexcept {
  if (std::exchange(timed_out_, false)) {
    return body_refused(408, "body_timeout", "the request's body took too long to arrive",
                        Code::kTimedOut);
  }
  lost();
  return gone();
}

Status Connection::body_refused(unsigned status, std::string_view code, std::string_view what,
                                Code error) noexcept {
  keep_alive_ = false;
  refusal_ = {.status = status, .code = code, .what = what};
  return fail(error, std::string(what), Drop::kPeer);
}

void Connection::reserve(Body& body, std::size_t bytes) {
  resize_unfilled(body.bytes_, bytes + Body::kPadding);
}

void Connection::finish(Body& body) {
  Watchdog::never(*this);
  if (body.bytes_.size() - body.size_ < Body::kPadding) reserve(body, body.size_);
  std::memset(body.bytes_.data() + body.size_, 0, Body::kPadding);
  body_done_ = true;
  if (on_gone_) arm_read();
}

asio::awaitable<Result<Body>> Connection::read_body(std::uint64_t bytes_max) {
  if (begun_ || body_asked_)
    co_return fail(Code::kInvalidArgument, "the body was asked for before");
  body_asked_ = true;
  Body body;
  Status status;
  if (head_.content_length.value_or(0) > bytes_max) {
    co_return std::unexpected(body_refused(413, "body_too_large",
                                           "the request's body is larger than the server takes",
                                           Code::kLimit)
                                  .error());
  }
  if (expects_continue_ && !body_done_ && input_.empty()) {
    Gather gather;
    gather.add(kContinue);
    status = co_await send(gather);
  }
  if (status && !body_done_) {
    if (body_ == BodyKind::kLength) {
      status = co_await read_length(body);
    } else {
      status = co_await read_chunks(body, bytes_max);
    }
  }
  if (!status) {
    Watchdog::never(*this);
    co_return std::unexpected(std::move(status.error()));
  }
  finish(body);
  co_return std::move(body);
}

asio::awaitable<Status> Connection::read_length(Body& body) {
  const auto length = static_cast<std::size_t>(head_.content_length.value_or(0));
  reserve(body, length);
  for (;;) {
    const std::size_t there = std::min(length - body.size_, input_.size());
    std::memcpy(body.bytes_.data() + body.size_, input_.bytes().data(), there);
    input_.consume(there);
    body.size_ += there;
    if (body.size_ == length) co_return Status();
    std::size_t got = 0;
    if (auto status = co_await read_to(body.bytes_.data() + body.size_, length - body.size_, got);
        !status) {
      co_return status;
    }
    body.size_ += got;
  }
}

// Moves what is in the buffer into the body.
Status Connection::take_chunks(Body& body, std::uint64_t bytes_max) {
  while (!input_.empty() && !chunks_.done()) {
    const auto step = chunks_.next(input_.bytes());
    if (!chunks_.error().empty()) {
      return body_refused(400, "bad_chunk", chunks_.error(), Code::kInvalidArgument);
    }
    // What is there and what its chunk says will come, before either is stored.
    const std::uint64_t left = bytes_max - body.size_;
    if (step.data.size() > left || chunks_.remaining() > left - step.data.size()) {
      return body_refused(413, "body_too_large",
                          "the request's body is larger than the server takes", Code::kLimit);
    }
    const std::size_t needed = body.size_ + step.data.size() + chunks_.remaining();
    if (needed > body.bytes_.size()) reserve(body, std::max(needed, 2 * body.bytes_.size()));
    if (!step.data.empty()) {
      std::memcpy(body.bytes_.data() + body.size_, step.data.data(), step.data.size());
      body.size_ += step.data.size();
    }
    input_.consume(step.consumed);
  }
  return {};
}

asio::awaitable<Status> Connection::read_chunks(Body& body, std::uint64_t bytes_max) {
  for (;;) {
    if (auto status = take_chunks(body, bytes_max); !status) co_return status;
    if (chunks_.done()) co_return Status();
    std::size_t got = 0;
    if (chunks_.remaining() >= kDirectReadBytes) {
      char* place = body.bytes_.data() + body.size_;
      if (auto status = co_await read_to(place, chunks_.remaining(), got); !status) {
        co_return status;
      }
      if (got > 0) chunks_.skip(got);
      body.size_ += got;
    } else if (auto status = co_await read_more(); !status) {
      co_return status;
    }
  }
}

void Connection::on_gone(std::function<void()> callback) {
  on_gone_ = std::move(callback);
  if (!on_gone_) return;
  if (gone_) {
    std::exchange(on_gone_, nullptr)();
  } else if (body_done_) {
    arm_read();
  }
}

// ---- answering

// The handler and, where it leaves one out, the answer. True when the connection is kept.
asio::awaitable<bool> Connection::serve() {
  in_handler_ = true;
  const bool returned = co_await run_handler();
  in_handler_ = false;
  on_gone_ = nullptr;
  if (!begun_) {
    if (gone_) co_return false;
    co_await refuse(refusal_);
    co_return false;
  }
  // Cut off, so that the client sees that the answer is not whole.
  if (!ended_ || !returned) co_return false;
  if (!body_done_) {
    co_await linger();
    co_return false;
  }
  co_return keep_alive_;
}

asio::awaitable<bool> Connection::run_handler() {
  try {
    co_await host_.options.handle(host_.thread, *this);
    co_return true;
  } catch (const std::exception& error) {
    log(fmt::format("an exception left the handler: {}", error.what()), begun_ ? status_ : 500);
  } catch (...) {
    log("an exception left the handler", begun_ ? status_ : 500);
  }
  co_return false;
}

asio::awaitable<void> Connection::refuse(Refusal refusal) {
  log(refusal.what, refusal.status);
  keep_alive_ = false;
  timed_out_ = false;
  begun_ = ended_ = false;
  const std::string_view type = refusal.status >= 500 ? "server_error" : "invalid_request_error";
  std::vector<Header> headers;
  headers.emplace_back("Content-Type", "application/json");
  if (co_await answer(refusal.status, std::move(headers),
                      error_object(refusal.what, type, refusal.code))) {
    co_await linger();
  }
}

bool Connection::bodiless() const noexcept {
  return head_.method == "HEAD" || status_ == 204 || status_ == 304;
}

Status Connection::start_answer(unsigned status, std::span<const Header> headers, AnswerBody body,
                                std::uint64_t length) {
  if (begun_) return fail(Code::kInvalidArgument, "an answer was begun before");
  status_ = status;
  const bool says_length = body == AnswerBody::kLength && status != 204 && status != 304;
  answer_body_ = bodiless() ? AnswerBody::kNone : body;
  if (answer_body_ == AnswerBody::kChunked && version_ < 11) answer_body_ = AnswerBody::kUntilClose;
  if (answer_body_ == AnswerBody::kUntilClose || !body_done_ || host_.draining) keep_alive_ = false;
  answer_left_ = length;
  const AnswerHead head{.status = status,
                        .headers = headers,
                        .body = answer_body_,
                        .length = length,
                        .says_length = says_length,
                        .keep_alive = keep_alive_,
                        .request_version = version_,
                        .date = host_.date.text(std::time(nullptr))};
  out_.clear();
  if (auto made = append_answer_head(head, out_); !made) {
    status_ = 0;
    return made;
  }
  begun_ = true;
  return {};
}

asio::awaitable<Status> Connection::answer(unsigned status, std::vector<Header> headers,
                                           std::string body) {
  if (auto started = start_answer(status, headers, AnswerBody::kLength, body.size()); !started) {
    co_return started;
  }
  ended_ = true;
  answer_left_ = 0;
  Gather gather;
  gather.add(out_);
  if (answer_body_ == AnswerBody::kLength) gather.add(body);
  co_return co_await send(gather);
}

asio::awaitable<Status> Connection::begin(unsigned status, std::vector<Header> headers) {
  for (const auto& [name, value] : headers) {
    if (!equal_ignoring_case(name, "content-length")) continue;
    std::uint64_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (value.empty() || error != std::errc() || end != value.data() + value.size()) {
      co_return fail(Code::kInvalidArgument, "the answer's Content-Length is no number");
    }
    co_return start_answer(status, headers, AnswerBody::kLength, length);
  }
  co_return start_answer(status, headers, AnswerBody::kChunked, 0);
}

asio::awaitable<Status> Connection::write(std::span<const std::string_view> pieces) {
  if (!begun_ || ended_) co_return fail(Code::kInvalidArgument, "no answer is under way");
  std::uint64_t bytes = 0;
  for (const auto piece : pieces) bytes += piece.size();
  if (bytes == 0 || answer_body_ == AnswerBody::kNone) co_return Status();
  if (answer_body_ == AnswerBody::kLength) {
    if (bytes > answer_left_) {
      co_return fail(Code::kInvalidArgument, "more is written than the answer's length says");
    }
    answer_left_ -= bytes;
  }
  Gather gather;
  const bool chunked = answer_body_ == AnswerBody::kChunked;
  if (chunked) fmt::format_to(std::back_inserter(out_), "{:x}\r\n", bytes);
  gather.add(out_);
  for (const auto piece : pieces) gather.add(piece);
  if (chunked) gather.add(kChunkEnd);
  co_return co_await send(gather);
}

asio::awaitable<Status> Connection::end() {
  if (!begun_ || ended_) co_return fail(Code::kInvalidArgument, "no answer is under way");
  if (answer_body_ == AnswerBody::kLength && answer_left_ > 0) {
    co_return fail(Code::kInvalidArgument, "less was written than the answer's length says");
  }
  Gather gather;
  gather.add(out_);
  if (answer_body_ == AnswerBody::kChunked) gather.add(kLastChunk);
  auto status = co_await send(gather);
  ended_ = status.has_value();
  co_return status;
}

// All of it into the kernel; out_ is free again afterwards.
asio::awaitable<Status> Connection::send(Gather& gather) {
  for (;;) {
    if (cut_ || !socket_.is_open()) co_return gone();
    const auto outcome = gather.try_send(socket_.native_handle());
    if (outcome == Gather::Outcome::kSent) {
      out_.clear();
      co_return Status();
    }
    error_code error = asio::error::broken_pipe;
    if (outcome == Gather::Outcome::kWouldBlock) {
      host_.watchdog.expires_after(*this, host_.options.limits.write_timeout);
      co_await socket_.async_wait(Socket::wait_write,
                                  asio::redirect_error(asio::use_awaitable, error));
      Watchdog::never(*this);
    }
    if (!error) continue;
    cut_ = true;
    lost();
    if (!std::exchange(timed_out_, false)) co_return gone();
    log("a client took nothing of its answer in time", status_);
    co_return fail(Code::kTimedOut, "the client takes nothing of its answer", Drop::kPeer);
  }
}

// Ends our side, then reads and drops what the client still sends, within limits.
asio::awaitable<void> Connection::linger() {
  error_code error;
  static_cast<void>(socket_.shutdown(Socket::shutdown_send, error));
  if (error) co_return;
  host_.watchdog.expires_after(*this, kLingerTime);
  for (std::size_t dropped = 0; dropped < kLingerBytesMax && !gone_ && !timed_out_;) {
    dropped += input_.size();
    input_.consume(input_.size());
    co_await wait_for_input();
  }
}

}  // namespace sluice::http
