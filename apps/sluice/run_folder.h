// run_folder.h: where the programs of one `sluice up` may leave what belongs to this run only:
// sockets whose paths must be short.
//
// Invariant: this user's alone (mode 0700), empty at the start, gone at the end. After a kill the
//            next run with the same log folder finds it and empties it: its name follows from that
//            folder.
// Owner:     of the folder, and of a lock on it until its end.
// Failure:   kUnavailable when another `sluice up` with the same log folder runs, kPermission when
//            somebody else has the name, kIo otherwise.
#pragma once

#include <string>

#include <sluice/error.h>

#include "base/unique_fd.h"

namespace sluice::cli {

class RunFolder {
 public:
  static Result<RunFolder> make(const std::string& log_directory);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::string& path() const noexcept { return path_; }

 private:
  RunFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;
};

// The path that make() takes, for showing what would be done.
std::string run_folder_path(const std::string& log_directory);

}  // namespace sluice::cli
