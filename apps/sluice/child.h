// child.h: one program that `sluice up` runs: started, watched, logged, stopped.
//
// Invariant: the child leads its own process group, gets SIGTERM from the kernel when this program
//            dies, and inherits no descriptor but its output pipe. Every byte it prints is in its
//            log file; its last lines are kept for messages. What it kept in shared memory is
//            removed when it ended, however it did.
// Threads:   one owner. stop() and kill() only send; reap() never blocks.
// Failure:   start() answers kIo or kNotFound with the program's name; a child that cannot run its
//            program exits with 127.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <sluice/error.h>

#include "base/unique_fd.h"
#include "leftovers.h"

namespace sluice::cli {

struct ChildSpec {
  std::string name;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=value, all of it
  std::string log_path;
};

struct Ending {
  int exit_code = 0;  // -1 when a signal ended it
  int signal_number = 0;
};

std::string describe(const Ending& ending);  // "exit code 1", "signal 9 (Killed)"

class Child {
 public:
  static Result<Child> start(const ChildSpec& spec);
  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) noexcept = default;
  ~Child() = default;  // does not stop it: whoever owns the group decides in which order

  const std::string& name() const noexcept { return name_; }
  pid_t pid() const noexcept { return pid_; }
  int pid_fd() const noexcept { return pid_fd_.get(); }  // readable when it ended
  int output_fd() const noexcept {
    return output_.get();
  }  // readable when it printed; -1 at its end
  const std::string& log_path() const noexcept { return log_path_; }
  const std::deque<std::string>& last_lines() const noexcept { return last_lines_; }
  const std::optional<Ending>& ending() const noexcept { return ending_; }

  // Moves what it printed into its log; each whole line also to `show`.
  void pump(const std::function<void(std::string_view line)>& show);
  void terminate() const noexcept;  // SIGTERM to the program
  void kill();                      // SIGKILL to its whole group
  bool reap();                      // true once it ended; what is left of its group is killed then
  // Remembers which files in shared memory are its own; worth it now and then while it lives.
  void note_shared_files() { leftovers_.look(pid_); }
  // After its end: what it left in shared memory, and is removed.
  const std::vector<std::string>& removed_files() const noexcept { return removed_files_; }

 private:
  Child() = default;
  void take_line(std::string_view line, const std::function<void(std::string_view)>& show);

  std::string name_;
  std::string log_path_;
  pid_t pid_ = -1;
  UniqueFd pid_fd_, output_, log_;
  std::string partial_;
  std::deque<std::string> last_lines_;
  std::optional<Ending> ending_;
  Leftovers leftovers_;
  std::vector<std::string> removed_files_;
};

}  // namespace sluice::cli
