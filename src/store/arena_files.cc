#include "store/arena_files.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/kill_point.h"

namespace sluice::store {
namespace {

constexpr int kLockAttempts = 10;

Status make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return {};
  const int error = errno;
  struct stat info{};
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    if (info.st_uid == ::geteuid() || ::geteuid() == 0) return {};
    return fail(Code::kPermission,
                fmt::format("arena folder {} belongs to user {}; choose another with --arena or "
                            "--directory",
                            path, info.st_uid));
  }
  return fail(error == EACCES ? Code::kPermission : Code::kIo,
              fmt::format("cannot make the arena folder {}: {}", path, std::strerror(error)));
}

std::uint64_t random_boot() noexcept {
  std::uint64_t boot = 0;
  while (boot == 0) {
    if (::getrandom(&boot, sizeof(boot), 0) != sizeof(boot)) boot = 0;
  }
  return boot;
}

Result<std::vector<std::uint64_t>> segment_sizes(const DaemonOptions& o) {
  const std::uint64_t arena = o.arena_bytes / kPageBytes * kPageBytes;
  if (arena == 0)
    return fail(Code::kInvalidArgument, "arena size: must be at least one page (4096 bytes)");
  const std::uint64_t segment =
      o.segment_bytes == 0 ? arena : o.segment_bytes / kPageBytes * kPageBytes;
  if (segment == 0 || segment > arena) {
    return fail(Code::kInvalidArgument,
                fmt::format("segment size {}: must be between one page and the arena size {}",
                            o.segment_bytes, o.arena_bytes));
  }
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(arena / segment), segment);
  if (arena % segment != 0) sizes.push_back(arena % segment);
  if (sizes.size() > kSegmentsMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("segment size {} cuts the arena into {} segments; at most {} are "
                            "possible: make segments larger",
                            segment, sizes.size(), kSegmentsMax));
  }
  return sizes;
}

}  // namespace

std::string control_path(const std::string& directory) {
  return directory + "/control";
}
std::string segment_path(const std::string& directory, std::uint32_t number) {
  return fmt::format("{}/data.{}", directory, number);
}
std::string page_path(const std::string& directory, std::uint32_t client) {
  return fmt::format("{}/clients/{}.page", directory, client);
}
std::string socket_path(const std::string& directory) {
  return directory + "/attach.sock";
}

Result<std::string> default_directory(std::string_view arena) {
  const bool valid = !arena.empty() && arena.size() <= 64 && arena != "." && arena != ".." &&
                     arena.find_first_not_of(
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
                         std::string_view::npos;
  if (!valid) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("arena name '{}': use 1 to 64 letters, digits, '_', '.' or '-'", arena));
  }
  return fmt::format("/dev/shm/sluice-{}-{}", ::geteuid(), arena);
}

Result<ArenaFiles> ArenaFiles::open(const DaemonOptions& options) {
  ArenaFiles files;
  files.directory_ = options.directory;
  // A daemon that stops removes the folder, the lock in it too: then once more.
  Status locked = files.make_and_lock(options.directory_mode);
  for (int attempt = 0;
       !locked && locked.error().code == Code::kNotFound && attempt < kLockAttempts; ++attempt) {
    locked = files.make_and_lock(options.directory_mode);
  }
  if (!locked && locked.error().code == Code::kNotFound) locked.error().code = Code::kUnavailable;
  if (!locked) return std::unexpected(locked.error());
  if (auto made = make_directory(files.directory_ + "/clients", options.directory_mode); !made) {
    return std::unexpected(made.error());
  }
  const bool there = ::access(control_path(files.directory_).c_str(), F_OK) == 0;
  auto status = there ? files.adopt() : files.create(options);
  if (!status && !there) files.remove_data();
  if (!status) return std::unexpected(status.error());
  return files;
}

Status ArenaFiles::make_and_lock(std::uint32_t directory_mode) {
  if (auto made = make_directory(directory_, directory_mode); !made) return made;
  return lock();
}

// kNotFound when the file that was locked, or its folder, has been removed meanwhile by the daemon
// that held it.
Status ArenaFiles::lock() {
  const std::string path = directory_ + "/lock";
  UniqueFd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!opened) {
    const int error = errno;
    const Code code = error == EACCES   ? Code::kPermission
                      : error == ENOENT ? Code::kNotFound
                                        : Code::kIo;
    return fail(code, fmt::format("cannot open {}: {}", path, std::strerror(error)));
  }
  lock_ = std::move(opened);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t n = ::pread(lock_.get(), holder, sizeof(holder) - 1, 0);
    return fail(
        Code::kUnavailable,
        fmt::format(
            "arena {} is served by another sluiced (pid {}); stop it, or choose another --arena",
            directory_, n > 0 ? holder : "unknown"));
  }
  // Its holder may have removed it between our open() and its end: what we hold then is nobody's
  // lock.
  struct stat held{};
  struct stat named{};
  if (::fstat(lock_.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0 ||
      held.st_ino != named.st_ino) {
    return fail(Code::kNotFound,
                fmt::format("{} was removed while this daemon started; start it again", path));
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), pid.data(), pid.size(), 0) < 0) {
    return fail(Code::kIo, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  return {};
}

Status ArenaFiles::create(const DaemonOptions& options) {
  if (options.objects_max == 0 || options.objects_max > kObjectsMax) {
    return fail(Code::kInvalidArgument, fmt::format("objects-max {}: must be between 1 and {}",
                                                    options.objects_max, kObjectsMax));
  }
  const auto sizes = segment_sizes(options);
  if (!sizes) return std::unexpected(sizes.error());
  for (std::uint32_t i = 0; i < sizes->size(); ++i) {
    const std::string path = segment_path(directory_, i);
    ::unlink(path.c_str());  // of a creation that never completed: there was no control segment
    auto fd = arena::create_segment(path, (*sizes)[i], 0600);
    if (!fd) return std::unexpected(fd.error());
    segments_.push_back(std::move(*fd));
  }
  KILL_POINT("create.between_files");
  // Made under another name and renamed when whole: a control segment that exists is complete.
  const ControlShape shape{.objects_max = options.objects_max, .segment_bytes = *sizes};
  const std::string path = control_path(directory_);
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());
  auto fd = arena::create_segment(draft, ControlView::bytes_for(shape), 0600);
  if (!fd) return std::unexpected(fd.error());
  auto mapping = arena::map_segment(fd->get(), ControlView::bytes_for(shape),
                                    {.access = arena::Access::kReadWrite});
  if (!mapping) return std::unexpected(mapping.error());
  control_mapping_ = std::move(*mapping);
  control_ = ControlView::create(control_mapping_.bytes(), shape, random_boot());
  KILL_POINT("create.before_rename");
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    return fail(Code::kIo, fmt::format("cannot rename {}: {}", draft, std::strerror(errno)));
  }
  auto read_only = arena::open_segment(path, control_mapping_.size(), arena::Access::kReadOnly);
  if (!read_only) return std::unexpected(read_only.error());
  control_read_only_ = std::move(*read_only);
  return {};
}

Status ArenaFiles::adopt() {
  const std::string path = control_path(directory_);
  auto fd = arena::open_segment(path, 0, arena::Access::kReadWrite);
  if (!fd) return std::unexpected(fd.error());
  const auto bytes = arena::check_segment(fd->get(), 0, path);
  if (!bytes) return std::unexpected(bytes.error());
  auto mapping = arena::map_segment(fd->get(), *bytes, {.access = arena::Access::kReadWrite});
  if (!mapping) return std::unexpected(mapping.error());
  control_mapping_ = std::move(*mapping);
  auto view = ControlView::validate(control_mapping_.bytes());
  if (!view) {
    view.error().message = fmt::format("{}: {}; remove {} when no process uses it any more", path,
                                       view.error().message, directory_);
    return std::unexpected(view.error());
  }
  control_ = *view;
  for (std::uint32_t i = 0; i < control_.header().segment_count; ++i) {
    auto segment = arena::open_segment(
        segment_path(directory_, i), control_.header().segment_bytes[i], arena::Access::kReadWrite);
    if (!segment) return std::unexpected(segment.error());
    segments_.push_back(std::move(*segment));
  }
  auto read_only = arena::open_segment(path, *bytes, arena::Access::kReadOnly);
  if (!read_only) return std::unexpected(read_only.error());
  control_read_only_ = std::move(*read_only);
  adopted_ = true;
  return {};
}

// What a creation that failed has made: its memory is free again at once.
void ArenaFiles::remove_data() {
  ::unlink((control_path(directory_) + ".new").c_str());
  for (std::uint32_t i = 0; i < segments_.size(); ++i)
    ::unlink(segment_path(directory_, i).c_str());
  segments_.clear();
}

void ArenaFiles::remove() {
  ::unlink(control_path(directory_).c_str());  // first: what has no control segment is nothing
  ::unlink(socket_path(directory_).c_str());
  ::unlink((directory_ + "/admin.port").c_str());
  for (std::uint32_t i = 0; i < segments_.size(); ++i)
    ::unlink(segment_path(directory_, i).c_str());
  for (std::uint32_t id = 0; id < kClientsMax; ++id) ::unlink(page_path(directory_, id).c_str());
  ::rmdir((directory_ + "/clients").c_str());
  ::unlink((directory_ + "/lock").c_str());
  ::rmdir(directory_.c_str());
}

}  // namespace sluice::store
