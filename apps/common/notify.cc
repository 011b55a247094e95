#include "common/notify.h"

#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>

namespace sluice::app {

Notifier::Notifier(const std::string& socket_path) {
  sockaddr_un address{};
  if (socket_path.empty() || socket_path.size() >= sizeof address.sun_path) return;
  if (socket_path.front() != '/' && socket_path.front() != '@') return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  if (socket_path.front() == '@') address.sun_path[0] = '\0';
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path.size());
  if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
    socket_ = std::move(fd);
  }
}

void Notifier::tell(std::string_view message) const {
  if (socket_) ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace sluice::app
