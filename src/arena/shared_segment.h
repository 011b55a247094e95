// shared_segment.h: files in shared memory: made whole at once, opened with a check, mapped.
//
// Invariant: a created file owns every byte it has (fallocate), so that writing it never ends in
//            SIGBUS for want of memory. Every mapping is MADV_DONTFORK and belongs to one Mapping;
//            every descriptor is O_CLOEXEC.
// Threads:   functions: any thread. A Mapping has one owner.
// Failure:   create_segment() removes what it began; a full file system is kOutOfSpace and says
//            how much was needed and how much there was. A file of another size than expected is
//            kCorrupt and is left as it is.
// Limits:    a size is a positive multiple of kPageBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include <sluice/error.h>

#include "base/unique_fd.h"

namespace sluice::arena {

enum class Access : std::uint8_t {
  kReadOnly,
  kReadWrite,  // shared: all processes see a write
  kPrivate,    // writable; a write copies its page and stays in this process
};

struct MapOptions {
  Access access = Access::kReadOnly;
  bool huge_pages = false;  // ask for MADV_HUGEPAGE; what the kernel answers is not an error
};

enum class Touch : std::uint8_t { kRead, kWrite };

class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  explicit operator bool() const noexcept { return data_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  // Writing through it needs an Access that allows it.
  std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }

  // Gives the mapping up without unmapping it: for a fork's child, where the range is not mapped and
  // may belong to somebody else by now.
  void forget() noexcept;

  // Drops this process's copies of the pages in [offset, offset + bytes): Access::kPrivate only,
  // whole pages.
  Status drop_private_pages(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  friend Result<Mapping> map_segment(int fd, std::uint64_t bytes, const MapOptions& options);
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  void reset() noexcept;

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Creates `path` (it must not exist) with `bytes` allocated and zero, readable and writable through
// the descriptor.
Result<UniqueFd> create_segment(const std::string& path, std::uint64_t bytes, mode_t mode);

// Opens an existing file for `access` (kPrivate needs only read permission) and checks that it is a
// regular file of exactly `bytes`, or, when bytes is 0, of a positive multiple of the page.
Result<UniqueFd> open_segment(const std::string& path, std::uint64_t bytes, Access access);

// The same check on a descriptor that another process passed. Returns the size.
Result<std::uint64_t> check_segment(int fd, std::uint64_t bytes, std::string_view name);

// Maps the first `bytes` of the file. The descriptor may be closed afterwards.
Result<Mapping> map_segment(int fd, std::uint64_t bytes, const MapOptions& options);

// Brings the pages of a mapped range in, so that the first access later costs no fault. kWrite does
// not change a byte; others may write the range meanwhile. On kernels without MADV_POPULATE_* every
// page is touched instead.
Status populate(std::span<std::byte> range, Touch touch);

}  // namespace sluice::arena
