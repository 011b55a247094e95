#include "store/unix_socket.h"

#include <array>
#include <cstring>

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"

namespace sluice::store {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(
        Code::kInvalidArgument,
        fmt::format(
            "socket path {} is {} bytes long; the system allows {}: choose a shorter arena folder",
            path, path.size(), sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Code code_for(int error) noexcept {
  switch (error) {
    case EACCES:
    case EPERM:
      return Code::kPermission;
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
    case EAGAIN:  // nobody accepts: its queue of connections is full
    case EPIPE:
      return Code::kUnavailable;
    default:
      return Code::kIo;
  }
}

std::unexpected<Error> failed(std::string_view what, const std::string& path) {
  const int error = errno;
  return fail(code_for(error), fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

}  // namespace

Result<UniqueFd> listen_at(const std::string& path, mode_t mode) {
  const auto address = address_of(path);
  if (!address) return std::unexpected(address.error());
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("cannot make the attach socket", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return failed("cannot replace the old attach socket", path);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return failed("cannot bind the attach socket", path);
  }
  if (::chmod(path.c_str(), mode) != 0) return failed("cannot set the permissions of", path);
  if (::listen(fd.get(), 128) != 0) return failed("cannot listen at", path);
  return fd;
}

Result<UniqueFd> connect_to(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return std::unexpected(address.error());
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return failed("cannot make a socket for", path);
  const timeval wait{.tv_sec = 1, .tv_usec = 0};
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) != 0) {
    return failed("cannot set a time limit for", path);
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return failed("cannot connect to", path);
  }
  return fd;
}

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return failed("cannot learn who connected", "to the attach socket");
  }
  return Peer{.pid = credentials.pid, .uid = credentials.uid};
}

Status send_frame(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  CHECK(fds.size() <= kPassedFdsMax);
  iovec iov{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kPassedFdsMax * sizeof(int))> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
    return failed("cannot send", "on the attach socket");
  return {};
}

Result<Frame> receive_frame(int socket, std::size_t bytes_max, Instant deadline) {
  pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
  for (;;) {
    const Instant t = now();
    if (t >= deadline)
      return fail(Code::kTimedOut, "the daemon did not answer on the attach socket in time");
    const auto left_ms =
        static_cast<int>(std::min<std::uint64_t>((deadline - t) / kNsPerMs + 1, 1'000));
    const int ready = ::poll(&waiting, 1, left_ms);
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) return failed("cannot wait", "on the attach socket");
  }
  Frame frame;
  frame.bytes.resize(bytes_max + 1);  // one more, so that a longer frame is noticed
  iovec iov{.iov_base = frame.bytes.data(), .iov_len = frame.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kPassedFdsMax * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n < 0) return failed("cannot receive", "on the attach socket");
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
      frame.fds.emplace_back(fd);
    }
  }
  if (n == 0) return fail(Code::kUnavailable, "the daemon closed the attach socket");
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(
        Code::kLimit,
        "descriptors passed by the daemon did not fit: raise the limit of open files (ulimit -n)");
  }
  frame.bytes.resize(static_cast<std::size_t>(n));
  return frame;
}

bool hung_up(int socket) noexcept {
  pollfd p{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace sluice::store
