#include "leftovers.h"

#include <array>
#include <filesystem>
#include <functional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace sluice::cli {
namespace {

void* map_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd || ::ftruncate(fd.get(), 4096) != 0) return MAP_FAILED;
  return ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0);
}

// A process group of its own that has a file mapped, until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& path) : Holder([&] { return map_file(path) != MAP_FAILED; }) {}
  explicit Holder(const std::function<bool()>& map) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const char done = map() ? 'y' : 'n';
      [[maybe_unused]] const ssize_t told = ::write(ends[1], &done, 1);
      for (;;) ::pause();
    }
    ::setpgid(pid_, pid_);
    ::close(ends[1]);
    char done = 'n';
    EXPECT_EQ(::read(ends[0], &done, 1), 1);
    EXPECT_EQ(done, 'y');
    ::close(ends[0]);
  }
  ~Holder() { kill(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  pid_t group() const { return pid_; }
  void kill() {
    if (std::exchange(killed_, true)) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  bool killed_ = false;
};

std::string named(const std::string& start) {
  static int number = 0;
  return "/dev/shm/" + start + "sluice-test-" + std::to_string(::getpid()) + "-" +
         std::to_string(number++);
}

// Kills the holder, whose file stays then, and has it removed, once.
void expect_removed(Holder& holder, const std::string& path) {
  Leftovers leftovers;
  leftovers.look(holder.group());
  holder.kill();
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(leftovers.remove(holder.group()), (std::vector<std::string>{path}));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(leftovers.remove(holder.group()).empty());
}

TEST(Leftovers, WhatAKilledProcessHadMappedIsRemoved) {
  const std::string path = named("psm_");
  Holder holder(path);
  expect_removed(holder, path);
}

TEST(Leftovers, AFileThatSomebodyElseHasMappedStays) {
  const std::string path = named("psm_");
  Holder holder(path), other(path);
  Leftovers leftovers;
  leftovers.look(holder.group());
  holder.kill();
  EXPECT_TRUE(leftovers.remove(holder.group()).empty());
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

TEST(Leftovers, OtherGroupsAndOtherNamesAreLeftAlone) {
  const std::string others = named("psm_"), strange = named("database-");
  Holder holder(strange), other(others);
  Leftovers leftovers;
  leftovers.look(holder.group());
  holder.kill();
  other.kill();
  EXPECT_TRUE(leftovers.remove(holder.group()).empty());
  for (const std::string& path : {others, strange}) {
    EXPECT_TRUE(std::filesystem::exists(path));
    std::filesystem::remove(path);
  }
}

// The C library makes it under another name, maps it, and gives it its own name then.
TEST(Leftovers, ASemaphoreThatAKilledProcessMadeIsRemoved) {
  const std::string path = named("sem.mp-");
  const std::string name = path.substr(path.find("mp-"));
  Holder holder([&] { return ::sem_open(name.c_str(), O_CREAT | O_EXCL, 0600, 1) != SEM_FAILED; });
  expect_removed(holder, path);
}

TEST(Leftovers, OnlyFilesDirectlyInSharedMemoryAreSeen) {
  EXPECT_EQ(shared_inodes("7f00-7f01 rw-s 00000000 00:1a 12   /dev/shm/psm_1a2b\n"
                          "7f00-7f01 rw-s 00000000 00:1a 13   /dev/shm/sem.a9 (deleted)\n"
                          "7f00-7f01 rw-s 00000000 00:1a 14   /dev/shm/sluice-0-default/segment\n"
                          "7f00-7f01 rw-s 00000000 00:1a 15   /dev/shm/psm_/../x\n"
                          "7f00-7f01 rw-s 00000000 00:1a x    /dev/shm/psm_x\n"
                          "7f00-7f01 r-xp 00000000 08:01 16   /usr/lib/libc.so.6\n"
                          "7f00-7f01 r-xp 00000000 08:01 17   /srv/dev/shm/psm_y\n"
                          "7f00-7f01 rw-p 00000000 00:00 0\n"
                          "\n"
                          "7f00-7f01 rw-s 00000000 00:1a 18   /dev/shm/psm_end"),
            (std::set<ino_t>{12, 13, 18}));
  EXPECT_TRUE(shared_inodes("").empty());
}

}  // namespace
}  // namespace sluice::cli
