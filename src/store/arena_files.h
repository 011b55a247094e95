// arena_files.h: the files of one arena and who owns them.
//
//   <directory>/lock           held by the daemon; only its death releases it
//   <directory>/control        the control segment
//   <directory>/data.0 ...     the data segments
//   <directory>/clients/N.page one page per attached client
//   <directory>/attach.sock    where clients attach
//   <directory>/admin.port     written by sluiced when its admin interface is on
//
// Invariant: an ArenaFiles exists only while this process holds the lock. What another daemon left
//            is taken over as it is; files that cannot be read are left alone and named in the
//            error.
// Threads:   the daemon's.
// Failure:   kUnavailable: another daemon holds the lock (its pid is in the message). kOutOfSpace,
//            kPermission, kIo, kVersion, kCorrupt as the file systems and formats say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/error.h>

#include "arena/shared_segment.h"
#include "base/unique_fd.h"
#include "store/control.h"
#include "store/daemon.h"

namespace sluice::store {

std::string control_path(const std::string& directory);
std::string segment_path(const std::string& directory, std::uint32_t number);
std::string page_path(const std::string& directory, std::uint32_t client);
std::string socket_path(const std::string& directory);

class ArenaFiles {
 public:
  static Result<ArenaFiles> open(const DaemonOptions& options);

  const std::string& directory() const noexcept { return directory_; }
  const ControlView& control() const noexcept { return control_; }
  bool adopted() const noexcept { return adopted_; }
  int control_fd_read_only() const noexcept { return control_read_only_.get(); }
  const std::vector<UniqueFd>& segments() const noexcept { return segments_; }

  // Unlinks everything. Processes that still map it keep what they have.
  void remove();

 private:
  ArenaFiles() = default;
  Status make_and_lock(std::uint32_t directory_mode);
  Status lock();
  Status create(const DaemonOptions& options);
  Status adopt();
  void remove_data();

  std::string directory_;
  UniqueFd lock_;
  UniqueFd control_read_only_;
  arena::Mapping control_mapping_;
  ControlView control_;
  std::vector<UniqueFd> segments_;
  bool adopted_ = false;
};

}  // namespace sluice::store
