#include "arena/shared_segment.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/checked.h"
#include "base/limits.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace sluice::arena {
namespace {

bool valid_size(std::uint64_t bytes) noexcept {
  return bytes != 0 && bytes % kPageBytes == 0 &&
         bytes <= static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
}

std::unexpected<Error> fail_size(std::string_view name, std::uint64_t bytes) {
  return fail(Code::kInvalidArgument,
              fmt::format("{}: {} bytes is not a positive multiple of the page of {} bytes", name,
                          bytes, kPageBytes));
}

std::unexpected<Error> fail_call(std::string_view call, std::string_view name, int error) {
  const bool refused = error == EACCES || error == EPERM || error == EROFS;
  return fail(refused ? Code::kPermission : Code::kIo,
              fmt::format("{} {}: {}", call, name, std::strerror(error)));
}

std::unexpected<Error> fail_no_space(const std::string& path, std::uint64_t bytes, int error) {
  const auto slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct statvfs fs{};
  const std::uint64_t free_bytes =
      statvfs(folder.c_str(), &fs) == 0 ? std::uint64_t{fs.f_bavail} * fs.f_frsize : 0;
  return fail(Code::kOutOfSpace,
              fmt::format("{} needs {} bytes, its file system has {} free ({}): make the arena "
                          "smaller, remove unused files, or enlarge the file system "
                          "(mount -o remount,size=...)",
                          path, bytes, free_bytes, std::strerror(error)));
}

// Allocates all bytes of an empty file; tmpfs and disk alike answer here instead of at a later
// write.
int allocate_all(int fd, std::uint64_t bytes) noexcept {
  while (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int protection(Access access) noexcept {
  return access == Access::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
}

// Faults one page in. A locked compare-and-exchange of a byte with itself is a write to the
// processor, also when others write the byte meanwhile, and changes nothing.
void touch_page(std::byte* page, Touch touch) noexcept {
  auto* byte = reinterpret_cast<unsigned char*>(page);
  unsigned char value = __atomic_load_n(byte, __ATOMIC_RELAXED);
  if (touch == Touch::kRead) return;
  __atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  reset();
}

void Mapping::reset() noexcept {
  if (data_ != nullptr) CHECK(::munmap(data_, bytes_) == 0);
  data_ = nullptr;
  bytes_ = 0;
}

void Mapping::forget() noexcept {
  data_ = nullptr;
  bytes_ = 0;
}

Status Mapping::drop_private_pages(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset % kPageBytes != 0 || bytes % kPageBytes != 0 || !fits(offset, bytes, bytes_)) {
    return fail(Code::kInvalidArgument,
                fmt::format("[{}, +{}) is no range of whole pages in a mapping of {} bytes", offset,
                            bytes, bytes_));
  }
  if (bytes == 0) return {};
  if (::madvise(data_ + offset, bytes, MADV_DONTNEED) != 0) {
    return fail_call("madvise(DONTNEED)", "private mapping", errno);
  }
  return {};
}

Result<UniqueFd> create_segment(const std::string& path, std::uint64_t bytes, mode_t mode) {
  if (!valid_size(bytes)) return fail_size(path, bytes);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) {
    if (errno == ENOSPC) return fail_no_space(path, bytes, errno);
    return fail_call("create", path, errno);
  }
  // The mode is the caller's word; umask would take bits away from it.
  int error = ::fchmod(fd.get(), mode) == 0 ? 0 : errno;
  if (error == 0) error = allocate_all(fd.get(), bytes);
  if (error == 0) return fd;

  ::unlink(path.c_str());
  fd.reset();  // the partial file's bytes are free again before the error says how many there are
  if (error == ENOSPC || error == EFBIG || error == EDQUOT) {
    return fail_no_space(path, bytes, error);
  }
  return fail_call("allocate", path, error);
}

Result<UniqueFd> open_segment(const std::string& path, std::uint64_t bytes, Access access) {
  const int direction = access == Access::kReadWrite ? O_RDWR : O_RDONLY;
  // O_NONBLOCK: opening a fifo that somebody put here must not wait.
  UniqueFd fd(::open(path.c_str(), direction | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return fail(Code::kNotFound, fmt::format("{}: no such file", path));
    return fail_call("open", path, errno);
  }
  if (auto size = check_segment(fd.get(), bytes, path); !size) {
    return std::unexpected(std::move(size.error()));
  }
  return fd;
}

Result<std::uint64_t> check_segment(int fd, std::uint64_t bytes, std::string_view name) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail_call("stat", name, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(Code::kCorrupt, fmt::format("{}: not a regular file", name), Drop::kSegment);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (bytes != 0 && size != bytes) {
    return fail(Code::kCorrupt, fmt::format("{}: {} bytes, expected {}", name, size, bytes),
                Drop::kSegment);
  }
  if (!valid_size(size)) {
    return fail(
        Code::kCorrupt,
        fmt::format("{}: {} bytes is not a positive multiple of {}", name, size, kPageBytes),
        Drop::kSegment);
  }
  return size;
}

Result<Mapping> map_segment(int fd, std::uint64_t bytes, const MapOptions& options) {
  if (!valid_size(bytes)) return fail_size("map", bytes);
  const auto size = check_segment(fd, 0, "map");
  if (!size) return std::unexpected(size.error());
  if (bytes > *size) {
    return fail(Code::kCorrupt, fmt::format("map: {} bytes asked of a file of {}", bytes, *size),
                Drop::kSegment);
  }
  const int sharing = options.access == Access::kPrivate ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* const at = ::mmap(nullptr, bytes, protection(options.access), sharing, fd, 0);
  if (at == MAP_FAILED) {
    if (errno == ENOMEM) {
      return fail(Code::kLimit,
                  fmt::format("map: no address space for {} bytes, or too many mappings "
                              "(vm.max_map_count, ulimit -v)",
                              bytes));
    }
    return fail_call("mmap", fmt::format("{} bytes", bytes), errno);
  }
  Mapping mapping(static_cast<std::byte*>(at), bytes);
  if (::madvise(at, bytes, MADV_DONTFORK) != 0) {
    return fail_call("madvise(DONTFORK)", "segment", errno);
  }
  if (options.huge_pages) ::madvise(at, bytes, MADV_HUGEPAGE);  // a wish: refused without THP
  return mapping;
}

Status populate(std::span<std::byte> range, Touch touch) {
  if (range.empty()) return {};
  const std::size_t into_page = reinterpret_cast<std::uintptr_t>(range.data()) % kPageBytes;
  std::byte* const first = range.data() - into_page;
  const std::size_t bytes = range.size() + into_page;
  const int advice = touch == Touch::kRead ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  // An empty range is refused only by kernels that do not know the advice (before 5.14).
  if (::madvise(first, 0, advice) != 0) {
    for (std::size_t at = 0; at < bytes; at += kPageBytes) touch_page(first + at, touch);
    return {};
  }
  while (::madvise(first, bytes, advice) != 0) {
    if (errno == EINTR) continue;
    return fail_call(touch == Touch::kRead ? "madvise(POPULATE_READ)" : "madvise(POPULATE_WRITE)",
                     fmt::format("{} bytes", range.size()), errno);
  }
  return {};
}

}  // namespace sluice::arena
