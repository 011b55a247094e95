#include "leftovers.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::cli {
namespace {

constexpr std::string_view kSharedMemory = "/dev/shm/";
// Of Python's shared memory, of its semaphores, of vLLM itself.
constexpr std::string_view kEngineFiles[] = {"psm_", "sem.mp-", "vllm"};
constexpr std::size_t kInodeWord = 4;  // of a line of /proc/<pid>/maps; the path follows

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

// The words of a line, counted from 0; empty beyond its last.
std::string_view word_of(std::string_view line, std::size_t number) {
  for (;; --number) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view word = line.substr(0, line.find(' '));
    if (number == 0) return word;
    line.remove_prefix(word.size());
  }
}

void each_entry(const std::string& folder, const std::function<void(std::string_view)>& visit) {
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) visit(entry->d_name);
  ::closedir(entries);
}

void each_process(const std::function<void(pid_t)>& visit) {
  each_entry("/proc", [&](std::string_view name) {
    if (const auto pid = number_of<pid_t>(name)) visit(*pid);
  });
}

// "PID (NAME) STATE PARENT GROUP ...", and NAME may hold anything.
pid_t group_of(pid_t pid) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t named = std::min(text.rfind(')'), text.size());
  return number_of<pid_t>(word_of(std::string_view(text).substr(named), 3)).value_or(-1);
}

std::set<ino_t> mapped_by(pid_t pid) {
  return shared_inodes(text_of(fmt::format("/proc/{}/maps", pid)));
}

bool is_engines(std::string_view name) {
  return std::ranges::any_of(kEngineFiles,
                             [&](std::string_view start) { return name.starts_with(start); });
}

// Of a regular file of this user; 0: it is none.
ino_t own_inode(const std::string& path) {
  struct stat status{};
  const bool own = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                   status.st_uid == ::geteuid();
  return own ? status.st_ino : 0;
}

}  // namespace

std::set<ino_t> shared_inodes(std::string_view maps) {
  std::set<ino_t> out;
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    std::string_view name = word_of(line, kInodeWord + 1);
    if (!name.starts_with(kSharedMemory)) continue;
    name.remove_prefix(kSharedMemory.size());
    const auto inode = number_of<ino_t>(word_of(line, kInodeWord));
    if (inode && !name.contains('/')) out.insert(*inode);
  }
  return out;
}

void Leftovers::look(pid_t group) {
  each_process([&](pid_t pid) {
    if (group_of(pid) != group) return;
    for (const ino_t file : mapped_by(pid)) {
      if (files_.size() < kLeftoversMax) files_.insert(file);
    }
  });
}

std::vector<std::string> Leftovers::remove(pid_t group) {
  std::map<ino_t, std::string> left;
  each_entry(std::string(kSharedMemory), [&](std::string_view name) {
    std::string path = fmt::format("{}{}", kSharedMemory, name);
    const ino_t inode = own_inode(path);
    if (is_engines(name) && files_.contains(inode)) left.emplace(inode, std::move(path));
  });
  files_.clear();
  if (left.empty()) return {};
  // The group's own processes may still be on their way out.
  each_process([&](pid_t pid) {
    if (group_of(pid) == group) return;
    for (const ino_t file : mapped_by(pid)) left.erase(file);
  });
  std::vector<std::string> removed;
  for (auto& [inode, path] : left) {
    if (::unlink(path.c_str()) == 0) removed.push_back(std::move(path));
  }
  return removed;
}

}  // namespace sluice::cli
