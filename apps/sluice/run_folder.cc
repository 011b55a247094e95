#include "run_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"

namespace sluice::cli {
namespace {

std::unexpected<Error> io_error(const std::string& path) {
  return fail(Code::kIo, fmt::format("cannot use the folder {}: {}", path, std::strerror(errno)));
}

void empty_folder(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
    std::filesystem::remove_all(entry.path(), ignored);
}

}  // namespace

std::string run_folder_path(const std::string& log_directory) {
  std::error_code ignored;
  const std::string whole = std::filesystem::absolute(log_directory, ignored).lexically_normal();
  // A socket's path has room for 107 bytes, which a log folder's can fill alone.
  return fmt::format("/tmp/sluice-up-{}-{:016x}", ::geteuid(),
                     hash64(std::as_bytes(std::span(whole))));
}

Result<RunFolder> RunFolder::make(const std::string& log_directory) {
  std::string path = run_folder_path(log_directory);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return io_error(path);
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return io_error(path);
  struct stat status{};
  if (::fstat(lock.get(), &status) != 0) return io_error(path);
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return fail(Code::kPermission,
                fmt::format("{} belongs to another user, or others may use it: remove it", path));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::kUnavailable,
                fmt::format("another `sluice up` uses the log folder {}", log_directory));
  }
  empty_folder(path);
  return RunFolder(std::move(path), std::move(lock));
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RunFolder::~RunFolder() {
  if (path_.empty()) return;
  empty_folder(path_);
  ::rmdir(path_.c_str());
}

}  // namespace sluice::cli
