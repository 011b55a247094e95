#include <fstream>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/quantity.h"
#include "doctor_checks.h"

namespace sluice::cli {
namespace {

constexpr const char* kShm = "/dev/shm";
constexpr rlim_t kFilesMin = 1024;

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

Finding check_shm(std::uint64_t arena_bytes) {
  struct statvfs status{};
  if (::statvfs(kShm, &status) != 0) {
    return {Level::kProblem, "shared memory", fmt::format("{} cannot be used", kShm),
            "mount a tmpfs there: mount -t tmpfs -o size=8G tmpfs /dev/shm"};
  }
  const std::uint64_t size = std::uint64_t{status.f_blocks} * status.f_frsize,
                      free = std::uint64_t{status.f_bavail} * status.f_frsize;
  const std::string seen =
      fmt::format("{} has {} of {} free", kShm, app::format_size(free), app::format_size(size));
  if (arena_bytes > free) {
    return {Level::kProblem, "shared memory",
            fmt::format("{}, the arena needs {}", seen, app::format_size(arena_bytes)),
            "make the arena smaller (size), or enlarge it: mount -o remount,size=... /dev/shm; in "
            "a container start it with --shm-size"};
  }
  return {Level::kOk, "shared memory", seen, ""};
}

Finding check_memlock() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string seen =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : app::format_size(limit.rlim_cur);
  return {Level::kOk, "locked memory",
          fmt::format("limit {}; only registration with a device or a network card needs it", seen),
          ""};
}

Finding check_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kFilesMin) {
    return {Level::kWarning, "open files", fmt::format("limit {}", limit.rlim_cur),
            "raise it: ulimit -n 4096"};
  }
  return {Level::kOk, "open files", fmt::format("limit {}", limit.rlim_cur), ""};
}

Finding check_huge_pages() {
  const std::string state = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (state.empty())
    return {Level::kNote, "huge pages",
            "this kernel has none for shared memory; the arena works without", ""};
  if (state.contains("[never]") || state.contains("[deny]")) {
    return {Level::kNote, "huge pages",
            fmt::format("off for shared memory ({}); the arena works without", state),
            "to allow them: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"};
  }
  return {Level::kOk, "huge pages", state, ""};
}

Finding check_cuda() {
  if (::access("/dev/nvidiactl", R_OK | W_OK) == 0)
    return {Level::kOk, "CUDA", "a driver is present", ""};
  if (::access("/dev/nvidiactl", F_OK) == 0) {
    return {Level::kWarning, "CUDA", "a driver is present, but this user may not use it",
            "add the user to the group of /dev/nvidiactl"};
  }
  return {Level::kNote, "CUDA",
          "no driver on this machine: engines on the CPU are served without a copy", ""};
}

}  // namespace

Findings check_machine(std::uint64_t arena_bytes) {
  return {check_shm(arena_bytes),
          check_memlock(),
          check_files(),
          check_huge_pages(),
          check_cuda(),
          {Level::kNote, "transports",
           "this version moves objects between processes of one machine, through shared memory; "
           "nothing else is needed for that",
           ""}};
}

}  // namespace sluice::cli
