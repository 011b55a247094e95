// unix_socket.h: SOCK_SEQPACKET sockets that pass descriptors.
//
// Threads: any; a socket has one owner. Failure: errors name the path and the errno text. Every
//          wait has a deadline.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include <sluice/error.h>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace sluice::store {

inline constexpr std::size_t kPassedFdsMax = 128;

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};

struct Frame {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

// Binds and listens; a left-over socket file is replaced (the caller holds the arena's lock).
// Non-blocking.
Result<UniqueFd> listen_at(const std::string& path, mode_t mode);
// kUnavailable when nobody listens, or nobody has accepted within a second.
Result<UniqueFd> connect_to(const std::string& path);
// The process at the other end, from the kernel.
Result<Peer> peer_of(int socket);

Status send_frame(int socket, std::span<const std::byte> bytes, std::span<const int> fds = {});
// One frame of at most `bytes_max`. kTimedOut at the deadline, kUnavailable at the end of the
// connection.
Result<Frame> receive_frame(int socket, std::size_t bytes_max, Instant deadline);
// True when the other end has gone. Does not block.
bool hung_up(int socket) noexcept;

}  // namespace sluice::store
