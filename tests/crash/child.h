// child.h: processes and memory that the crash tests share with them.
//
// Invariant: a Child ends with its parent (PR_SET_PDEATHSIG) and is reaped by its destructor; none is left behind.
// Threads:   fork() only while the test process has one thread, so tests keep their Clients inside children.
// Failure:   a child says what went wrong on stderr and ends with a status other than 0.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace sluice::crash {

// One zeroed T, the same memory in this process and in all that are forked from it later.
template <class T>
class Shared {
 public:
  Shared() {
    void* at =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    value_ = new (at) T{};
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T* operator->() const noexcept { return value_; }
  T& operator*() const noexcept { return *value_; }

 private:
  T* value_;
};

class Child {
 public:
  Child() = default;
  // Runs `body` in a new process; what it returns is the exit status.
  explicit Child(const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    CHECK(pid_ >= 0);
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(::getppid() == parent ? run(body) : 1);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&& other) noexcept {
    if (this != &other) {
      end();
      pid_ = std::exchange(other.pid_, 0);
    }
    return *this;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  pid_t pid() const noexcept { return pid_; }
  void signal(int number) const noexcept {
    if (pid_ != 0) ::kill(pid_, number);
  }
  // Waits for its end: the exit status, or minus the signal that ended it.
  int wait() noexcept {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0) CHECK(errno == EINTR);
    pid_ = 0;
    return meaning(status);
  }
  // True, with the same number, once it has ended; does not wait.
  bool ended(int* result) noexcept {
    int status = 0;
    if (pid_ == 0 || ::waitpid(pid_, &status, WNOHANG) <= 0) return false;
    pid_ = 0;
    *result = meaning(status);
    return true;
  }
  int kill_and_wait() noexcept {
    signal(SIGKILL);
    return wait();
  }

 private:
  // Nothing that the body throws may unwind into the copy of the test that this process holds.
  static int run(const std::function<int()>& body) noexcept {
    int status = 8;
    try {
      status = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "a child ended by an exception: %s\n", error.what());
    }
    std::fflush(nullptr);
    return status;
  }
  static int meaning(int status) noexcept {
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void end() noexcept {
    if (pid_ != 0) kill_and_wait();
  }
  pid_t pid_ = 0;
};

[[noreturn]] inline void give_up(const char* file, int line, const char* condition,
                                 const std::string& why = {}) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, condition, why.c_str());
  std::fflush(nullptr);
  ::_exit(9);
}

template <class... Args>
[[noreturn]] void give_up(const char* file, int line, const char* condition,
                          fmt::format_string<Args...> text, Args&&... args) {
  give_up(file, line, condition, fmt::format(text, std::forward<Args>(args)...));
}

// In a child: ends it with a line on stderr. The rest is a format and its arguments.
#define REQUIRE(condition, ...)                                                            \
  do {                                                                                     \
    if (!(condition))                                                                      \
      ::sluice::crash::give_up(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

}  // namespace sluice::crash
