// test_client.h: a client of bytes for tests: sends what it is told, malformed or not, and reads
// what comes. Blocks, with a patience that turns a hang into a failed expectation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace sluice::http {

class TestClient {
 public:
  explicit TestClient(std::uint16_t port, int receive_buffer_bytes = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer_bytes > 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                   sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  int fd() const noexcept { return fd_.get(); }
  void close() noexcept { fd_.reset(); }
  void end() noexcept { ::shutdown(fd_.get(), SHUT_WR); }
  // Close with a reset instead of an orderly end.
  void reset() noexcept {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    fd_.reset();
  }

  bool send(std::string_view bytes) noexcept {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Until the text has come; what was read up to and including it. Empty when the server closed.
  std::string read_until(std::string_view text) {
    for (;;) {
      if (const auto at = seen_.find(text); at != std::string::npos) {
        std::string out = seen_.substr(0, at + text.size());
        seen_.erase(0, at + text.size());
        return out;
      }
      if (!receive()) return {};
    }
  }

  // Until the server closes.
  std::string read_all() {
    while (receive()) {
    }
    return std::exchange(seen_, {});
  }

  // One answer with a Content-Length: header and body.
  std::string read_answer() {
    std::string head = read_until("\r\n\r\n");
    const auto at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    const std::size_t length = std::stoul(head.substr(at + 16));
    while (seen_.size() < length && receive()) {
    }
    head += seen_.substr(0, length);
    seen_.erase(0, std::min(length, seen_.size()));
    return head;
  }

 private:
  bool receive() {
    char block[16 * 1024];
    const ssize_t got = ::recv(fd_.get(), block, sizeof block, 0);
    if (got <= 0) return false;
    seen_.append(block, static_cast<std::size_t>(got));
    return true;
  }

  UniqueFd fd_;
  std::string seen_;
};

}  // namespace sluice::http
