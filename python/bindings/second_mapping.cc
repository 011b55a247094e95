#include "second_mapping.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/checked.h"

namespace sluice::python {
namespace {

std::byte* mapped(void* address) noexcept {
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

std::byte* map_private(std::byte* at, std::size_t length) noexcept {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at == nullptr ? 0 : MAP_FIXED);
  return mapped(::mmap(at, length, PROT_READ | PROT_WRITE, flags, -1, 0));
}

}  // namespace

Result<std::shared_ptr<SecondMapping>> SecondMapping::of(std::span<std::byte> bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t lead = address & (page - 1);
  const std::size_t length = align_up(bytes.size() + lead, page);
  // An old size of 0 asks mremap for another mapping of the same shared pages (mremap(2)).
  auto* const base = mapped(::mremap(bytes.data() - lead, 0, length, MREMAP_MAYMOVE));
  if (base == nullptr) {
    return fail(Code::kIo, std::string("mapping a reservation for Python: ") + std::strerror(errno),
                Drop::kObject);
  }
  CHECK(::madvise(base, length, MADV_DONTFORK) == 0);
  // Best effort: pages that can not be mapped now are mapped when they are written.
  static_cast<void>(::madvise(base, length, MADV_POPULATE_WRITE));
  return std::shared_ptr<SecondMapping>(new SecondMapping(base, length, base + lead));
}

SecondMapping::SecondMapping(std::byte* base, std::size_t length, std::byte* data) noexcept
    : base_(base), length_(length), data_(data), owner_(::getpid()) {}

SecondMapping::~SecondMapping() {
  if (::getpid() == owner_) CHECK(::munmap(base_, length_) == 0);
}

void SecondMapping::detach() noexcept {
  if (!attached_ || ::getpid() != owner_) return;
  attached_ = false;
  if (views() == 0) return;  // nobody can look: the destructor unmaps
  std::byte* const copy = map_private(nullptr, length_);
  if (copy != nullptr) {
    std::memcpy(copy, base_, length_);
    if (mapped(::mremap(copy, length_, length_, MREMAP_MAYMOVE | MREMAP_FIXED, base_)) == base_)
      return;
    static_cast<void>(::munmap(copy, length_));
  }
  CHECK(map_private(base_, length_) == base_);
}

}  // namespace sluice::python
