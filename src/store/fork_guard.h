// fork_guard.h: tells a fork's child that a handle belongs to its parent, without a system call.
//
// Invariant: ours() is true in the process that made the guard and false in every child forked from
//            it: the kernel wipes the guard's page in the child (MADV_WIPEONFORK).
// Threads:   any.
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/mman.h>

#include "base/check.h"
#include "base/limits.h"

namespace sluice::store {

class ForkGuard {
 public:
  ForkGuard() noexcept {
    void* page =
        ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK(::madvise(page, kPageBytes, MADV_WIPEONFORK) == 0);
    word_ = new (page) std::atomic<std::uint32_t>(1);
  }
  ~ForkGuard() { ::munmap(word_, kPageBytes); }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool ours() const noexcept { return word_->load(std::memory_order_relaxed) == 1; }

 private:
  std::atomic<std::uint32_t>* word_;
};

}  // namespace sluice::store
