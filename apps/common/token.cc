#include "common/token.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace sluice::app {
namespace {

constexpr std::size_t kTokenBytesMax = 4096;

}  // namespace

Result<std::string> read_token_file(const std::string& path) {
  const auto refuse = [&](std::string why) {
    return fail(Code::kInvalidArgument, fmt::format("token-file {}: {}", path, why));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return refuse(std::strerror(errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return refuse("is not a regular file");
  if ((status.st_mode & 0177) != 0) {
    return refuse(fmt::format("others may read or run it (mode {:04o}): chmod 600 it",
                              status.st_mode & 07777));
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return refuse("belongs to another user");
  std::array<char, kTokenBytesMax + 1> buffer{};
  const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
  if (n < 0) return refuse(std::strerror(errno));
  std::string token(buffer.data(), static_cast<std::size_t>(n));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  if (token.empty()) return refuse("is empty");
  if (token.size() > kTokenBytesMax) return refuse("holds more than 4 KiB");
  return token;
}

Result<std::string> read_token(const std::string& path, const std::string& variable,
                               const Environment& environment) {
  if (!path.empty()) return read_token_file(path);
  auto token = environment(variable);
  if (token && token->empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} is set but empty: give it a value or unset it", variable));
  }
  return token.value_or("");
}

}  // namespace sluice::app
