#include "leftovers.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::cli {
namespace {

constexpr std::string_view kSharedMemory = "/dev/shm/";
// Of Python's shared memory, of its semaphores, of vLLM itself.
constexpr std::string_view kEngineFiles[] = {"psm_", "sem.mp-", "vllm"};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<pid_t> number_of(std::string_view text) {
  pid_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

void each_process(const std::function<void(pid_t)>& visit) {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    if (const auto pid = number_of(entry->d_name)) visit(*pid);
  }
  ::closedir(folder);
}

// "PID (NAME) STATE PARENT GROUP ...", and NAME may hold anything.
pid_t group_of(pid_t pid) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", pid));
  std::string_view rest = text;
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));
  for (int field = 0; field < 3 && !rest.empty(); ++field)
    rest.remove_prefix(std::min(rest.find(' '), rest.size() - 1) + 1);
  return number_of(rest.substr(0, rest.find(' '))).value_or(-1);
}

std::set<std::string> mapped_by(pid_t pid) {
  return shared_files(text_of(fmt::format("/proc/{}/maps", pid)));
}

bool is_own(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid();
}

}  // namespace

std::set<std::string> shared_files(std::string_view maps) {
  std::set<std::string> out;
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    const std::size_t at = line.find(kSharedMemory);
    if (at == std::string_view::npos) continue;
    const std::string_view name = line.substr(at + kSharedMemory.size());
    const bool engines = std::ranges::any_of(
        kEngineFiles, [&](std::string_view start) { return name.starts_with(start); });
    // One with a blank says "(deleted)" behind its name: there is nothing to remove.
    if (!engines || name.find_first_of("/ ") != std::string_view::npos) continue;
    out.insert(std::string(line.substr(at)));
  }
  return out;
}

void Leftovers::look(pid_t group) {
  each_process([&](pid_t pid) {
    if (group_of(pid) != group) return;
    for (const std::string& file : mapped_by(pid)) {
      if (files_.size() < kLeftoversMax) files_.insert(file);
    }
  });
}

std::vector<std::string> Leftovers::remove(pid_t group) {
  std::erase_if(files_, [](const std::string& file) { return !is_own(file); });
  if (files_.empty()) return {};
  // The group's own processes may still be on their way out.
  each_process([&](pid_t pid) {
    if (group_of(pid) == group) return;
    for (const std::string& file : mapped_by(pid)) files_.erase(file);
  });
  std::vector<std::string> removed;
  for (const std::string& file : files_) {
    if (::unlink(file.c_str()) == 0) removed.push_back(file);
  }
  files_.clear();
  return removed;
}

}  // namespace sluice::cli
