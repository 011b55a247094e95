#include "http/gather.h"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>

namespace sluice::http {

void Gather::add(std::string_view bytes) {
  if (bytes.empty()) return;
  // sendmsg() takes a pointer to bytes that it does not change.
  const iovec piece{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  if (more_.empty() && count_ < few_.size()) {
    few_[count_] = piece;
  } else {
    if (more_.empty()) more_.assign(few_.begin(), few_.end());
    more_.push_back(piece);
  }
  ++count_;
  left_ += bytes.size();
}

Gather::Outcome Gather::try_send(int socket) noexcept {
  while (left_ > 0) {
    msghdr message{};
    message.msg_iov = pieces() + first_;
    message.msg_iovlen = std::min(count_ - first_, kPiecesMax);
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      drop(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Outcome::kWouldBlock;
    } else if (errno != EINTR) {
      return Outcome::kBroken;
    }
  }
  return Outcome::kSent;
}

void Gather::drop(std::size_t bytes) noexcept {
  left_ -= bytes;
  while (bytes > 0) {
    iovec& piece = pieces()[first_];
    const std::size_t taken = std::min(bytes, piece.iov_len);
    piece.iov_base = static_cast<char*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    bytes -= taken;
    if (piece.iov_len == 0) ++first_;
  }
}

}  // namespace sluice::http
