// gather.h: a list of memory pieces on its way into a socket.
//
// Invariant: try_send() hands over what the kernel takes now, in order, in one system call for up
//            to kPiecesMax pieces; what is left stands in the list.
// Owner:     the caller owns the bytes until the list is empty.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include <sys/uio.h>

namespace sluice::http {

class Gather {
 public:
  static constexpr std::size_t kPiecesMax = 512;  // of one system call; below IOV_MAX

  void add(std::string_view bytes);
  bool empty() const noexcept { return left_ == 0; }
  std::size_t left() const noexcept { return left_; }

  enum class Outcome { kSent, kWouldBlock, kBroken };
  // kSent: all of it. kBroken: the peer has gone or the socket is closed.
  Outcome try_send(int socket) noexcept;

 private:
  iovec* pieces() noexcept { return more_.empty() ? few_.data() : more_.data(); }
  void drop(std::size_t bytes) noexcept;

  std::array<iovec, 8> few_;
  std::vector<iovec> more_;  // all of them, as soon as they are too many for few_
  std::size_t count_ = 0;
  std::size_t first_ = 0;
  std::size_t left_ = 0;
};

}  // namespace sluice::http
