// leftovers.h: files in shared memory that a program and its children made, and that nobody removes
// once they are killed.
//
// Engines keep message queues and semaphores in /dev/shm and take them away when they stop by
// themselves. Their names are random, so a living process is the only one who knows which are its;
// and a semaphore is mapped under a name that it loses at once, so that only its inode tells.
//
// Invariant: removes only what a process of the group had mapped, what has an engine's kind of name,
//            belongs to this user, and is mapped by no other living process.
// Threads:   one owner.
// Limits:    4,096 files.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace sluice::cli {

inline constexpr std::size_t kLeftoversMax = 4096;

// Inodes of the files directly in /dev/shm that these lines of a /proc/<pid>/maps name, whether they
// still have that name or not.
std::set<ino_t> shared_inodes(std::string_view maps);

class Leftovers {
 public:
  // Remembers what the living processes of a process group have mapped. Some milliseconds.
  void look(pid_t group);
  // The group has been killed. Answers what was removed.
  std::vector<std::string> remove(pid_t group);

 private:
  std::set<ino_t> files_;
};

}  // namespace sluice::cli
