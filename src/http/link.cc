#include "http/link.h"

#include <cerrno>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

namespace sluice::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

std::unexpected<Error> Link::failed(std::string_view doing, const error_code& error) const {
  switch (reason_) {
    case Reason::kStopped:
      return fail(Code::kUnavailable, "the request was cancelled", Drop::kTransfer);
    case Reason::kDeadline:
      return fail(Code::kTimedOut, "the engine did not answer before the deadline",
                  Drop::kTransfer);
    case Reason::kNone:
      break;
  }
  return fail(Code::kUnavailable, fmt::format("{}: {}", doing, error.message()), Drop::kTransfer);
}

asio::awaitable<Status> Link::connect(const tcp::endpoint& endpoint) {
  error_code error = asio::error::operation_aborted;
  if (!stopped()) {
    co_await socket_.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  }
  if (!error && !stopped()) static_cast<void>(socket_.set_option(tcp::no_delay(true), error));
  if (!error && !stopped()) co_return Status();
  close();
  co_return failed("cannot connect", error);
}

asio::awaitable<Status> Link::send(Gather& gather) {
  for (;;) {
    error_code error = asio::error::broken_pipe;
    if (stopped() || !socket_.is_open()) co_return failed("cannot send", error);
    const auto outcome = gather.try_send(socket_.native_handle());
    if (outcome == Gather::Outcome::kSent) co_return Status();
    if (outcome == Gather::Outcome::kWouldBlock) {
      co_await socket_.async_wait(tcp::socket::wait_write,
                                  asio::redirect_error(asio::use_awaitable, error));
    }
    if (error) co_return failed("cannot send", error);
  }
}

asio::awaitable<Status> Link::fill(std::size_t& got) {
  got = 0;
  error_code error = asio::error::operation_aborted;
  if (stopped()) co_return failed("cannot read", error);
  if (filled_) buffer_.grow_to(buffer_bytes_);
  if (!buffer_.make_room(buffer_bytes_)) {
    co_return fail(Code::kLimit, "the engine's answer has a header beyond its bounds",
                   Drop::kTransfer);
  }
  const auto room = buffer_.begin_read();
  got = co_await socket_.async_read_some(asio::buffer(room.data(), room.size()),
                                         asio::redirect_error(asio::use_awaitable, error));
  buffer_.commit(got);
  filled_ = got == room.size();
  if (stopped() || (error && error != asio::error::eof)) co_return failed("cannot read", error);
  co_return Status();
}

asio::awaitable<Status> Link::read_to(char* place, std::size_t bytes, std::size_t& got) {
  got = 0;
  error_code error = asio::error::operation_aborted;
  if (stopped()) co_return failed("cannot read", error);
  got = co_await socket_.async_read_some(asio::buffer(place, bytes),
                                         asio::redirect_error(asio::use_awaitable, error));
  if (stopped() || (error && error != asio::error::eof)) co_return failed("cannot read", error);
  co_return Status();
}

void Link::close() noexcept {
  error_code ignored;
  static_cast<void>(socket_.close(ignored));
}

// A reset, since an engine that reads nothing would never come to an orderly end behind the bytes
// that it has not read.
void Link::abort(Reason reason) noexcept {
  if (!stopped()) reason_ = reason;
  error_code ignored;
  static_cast<void>(socket_.set_option(asio::socket_base::linger(true, 0), ignored));
  close();
}

void Link::stop() noexcept {
  abort(Reason::kStopped);
}

void Link::on_deadline() {
  if (const auto expired = std::exchange(expired_, nullptr)) return expired();
  abort(Reason::kDeadline);
}

void Link::rest(Clock::duration wait, std::function<void()> expired) {
  expired_ = std::move(expired);
  filled_ = false;
  buffer_.shrink();
  watchdog_.expires_after(*this, wait);
}

bool Link::wake() noexcept {
  expired_ = nullptr;
  char byte = 0;
  const ssize_t peeked =
      ::recv(socket_.native_handle(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return peeked < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace sluice::http
