// feature_directory.h: what the proxy knows about the arena: which features are there, and how a
// hand-off is ended.
//
// Invariant: nothing here blocks a worker: look-ups and leases only read shared memory; whatever
//            asks the daemon (attaching, boards, ending a hand-off) runs on this object's own
//            thread.
// Threads:   find(), handoff_has_begun(), end_handoff(), counts() from any. One thread of its own.
// Owner:     owns the attachment; a Lease that was handed out outlives it.
// Failure:   without an arena nothing is found and nothing is ended: every feature is encoded, and
//            hand-offs end by their engines and their pins. It attaches by itself when an arena
//            appears.
// Limits:    256 prefixes; 65,536 hand-offs waiting to be ended, and as many to be ended again, more
//            are left to their pins and counted.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sluice/client.h>

namespace sluice::proxy {

struct FeatureDirectoryOptions {
  std::string arena = "default";
  std::string directory;  // wins over the name
  std::string tenant = "default";
  std::chrono::milliseconds refresh{
      1'000};  // how often boards are read and a lost arena is looked for
};

struct FoundFeature {
  Lease lease;
  std::string metadata;  // JSON of what sizes its placeholder, from the object's attributes
};

class FeatureDirectory {
 public:
  explicit FeatureDirectory(FeatureDirectoryOptions options);
  ~FeatureDirectory();
  FeatureDirectory(const FeatureDirectory&) = delete;
  FeatureDirectory& operator=(const FeatureDirectory&) = delete;

  // Under any prefix that an engine of this tenant posted for this model.
  std::optional<FoundFeature> find(std::string_view model, std::string_view identifier) const;

  // The first part of a hand-off's first generation is there: decode can begin to copy it.
  bool handoff_has_begun(std::string_view handoff) const;

  // Removes what is left of a hand-off, soon and idempotently. `written`: its writer has answered.
  // One that has not may be in the step that commits, and writes after this: then it is removed
  // again a little later, and once more when any step is over.
  void end_handoff(std::string handoff, bool written);

  struct Counts {
    bool attached = false;
    std::size_t prefixes = 0;
    std::uint64_t attaches = 0, attach_failures = 0, ended = 0, end_failures = 0, end_dropped = 0;
    std::uint64_t objects_removed = 0;
  };
  Counts counts() const;

 private:
  struct Prefix {
    ObjectKey sample;  // any key under it
    std::string model;
  };
  // What find() reads: made anew by each refresh, shared by the look-ups that are using it.
  struct View {
    std::shared_ptr<Client> client;
    std::vector<Prefix> prefixes;
  };

  void run(const std::stop_token& stop);
  void refresh();
  void take_due();
  void end_waiting();

  std::shared_ptr<const View> current_view() const;

  FeatureDirectoryOptions options_;
  mutable std::mutex view_mutex_;
  std::shared_ptr<const View> view_;
  mutable std::mutex mutex_;  // guards what follows; both are held for moments
  std::condition_variable_any wake_;
  struct Ending {
    std::string handoff;
    std::chrono::steady_clock::time_point due;
  };
  std::deque<std::string> ending_;
  std::array<std::deque<Ending>, 2> again_;  // each in the order in which they are due
  Counts counts_;
  std::shared_ptr<Client> client_;  // the own thread's
  std::jthread thread_;
};

// Whether a request for `wanted` can mean the model that engines call `known`: equal, or equal
// behind the last '/'.
bool same_model(std::string_view wanted, std::string_view known) noexcept;

}  // namespace sluice::proxy
