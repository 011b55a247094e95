// pair.h: two processes of one program that meet in shared memory.
//
// Both are forked before anything attaches: handles belong to one process.
#pragma once

#include <atomic>
#include <functional>

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

namespace sluice::bench {

// A T in memory that this process and its children share. T holds atomics and plain values only.
template <class T>
class Shared {
 public:
  Shared() {
    void* const at =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("no shared memory");
    value_ = new (at) T{};
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }

 private:
  T* value_;
};

// A forked process that runs `body`. Leaving without join() ends it.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ < 0) die("fork failed");
    if (pid_ == 0) {
      body();
      std::fflush(stdout);
      ::_exit(0);
    }
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const noexcept { return pid_; }
  void join() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    if (status != 0) die("the second process failed");
  }
  // Ends the program when the child has ended by itself.
  void check() const {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) die("the second process ended");
  }

 private:
  pid_t pid_;
};

// Turns until `ready()`, giving the processor away, and dies after `seconds`.
template <class Ready>
void until(Ready&& ready, const Child* child = nullptr, unsigned seconds = 30) {
  const Instant give_up = now() + seconds * 1000 * kNsPerMs;
  while (!ready()) {
    if (child != nullptr) child->check();
    if (now() > give_up) die("the second process did not follow in time");
    ::sched_yield();
  }
}

}  // namespace sluice::bench
