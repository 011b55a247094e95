// notify.h: what systemd is told, by one datagram per message (sd_notify's protocol, without its
// library).
//
// Threads: any. Failure: a supervisor that does not listen is ignored; nothing depends on it.
#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace sluice::app {

class Notifier {
 public:
  explicit Notifier(
      const std::string& socket_path);  // empty: tells nobody; a leading '@' is an abstract socket
  void tell(std::string_view message) const;  // "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=..."
  bool connected() const noexcept { return static_cast<bool>(socket_); }

 private:
  UniqueFd socket_;
};

}  // namespace sluice::app
