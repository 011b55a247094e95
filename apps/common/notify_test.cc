#include "common/notify.h"

#include <cstddef>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sluice::app {
namespace {

// A supervisor's datagram socket in the abstract namespace.
UniqueFd supervisor(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  return fd;
}

TEST(Notify, EachMessageIsOneDatagram) {
  const std::string name = "sluice-notify-test-" + std::to_string(::getpid());
  const UniqueFd listener = supervisor(name);
  const Notifier notifier("@" + name);
  ASSERT_TRUE(notifier.connected());
  notifier.tell("READY=1");
  notifier.tell("WATCHDOG=1");
  char buffer[64];
  ASSERT_EQ(::recv(listener.get(), buffer, sizeof buffer, MSG_DONTWAIT), 7);
  EXPECT_EQ(std::string(buffer, 7), "READY=1");
  ASSERT_EQ(::recv(listener.get(), buffer, sizeof buffer, MSG_DONTWAIT), 10);
}

TEST(Notify, NoSupervisorOrAWrongAddressIsIgnored) {
  for (const char* path : {"", "relative", "/nowhere/at/all"}) {
    const Notifier notifier(path);
    EXPECT_FALSE(notifier.connected());
    notifier.tell("READY=1");
  }
  EXPECT_FALSE(Notifier("/" + std::string(300, 'x')).connected());
}

}  // namespace
}  // namespace sluice::app
