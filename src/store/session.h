// session.h: what stands behind a Client: the current Attachment, replaced when the arena is.
//
// Invariant: a reader's Use keeps the Attachment it got alive without taking a lock: replacing
//            waits until no Use of the old one is left (readers are short: a look-up or an
//            acquire).
// Threads:   any.
// Failure:   kDetached after close() and in a fork's child.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include <sluice/client.h>

#include "store/attachment.h"
#include "store/fork_guard.h"

namespace sluice::store {

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const ClientOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Wait-free access for a short read. False when closed, or in a fork's child.
  class Use {
   public:
    explicit Use(const Session& session) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const noexcept { return attachment_ != nullptr; }
    Attachment* operator->() const noexcept { return attachment_; }

   private:
    const Session& session_;
    Attachment* attachment_;
  };

  // For requests: waits until the deadline for a daemon, and attaches to a new arena when the old
  //               one was replaced.
  Result<std::shared_ptr<Attachment>> for_request(Instant deadline);
  std::shared_ptr<Attachment> current() const;
  Status reattach(std::chrono::milliseconds timeout);
  void close();
  const std::string& directory() const noexcept { return directory_; }
  Verify verify() const noexcept { return options_.verify; }

 private:
  Session(ClientOptions options, std::string directory, std::shared_ptr<Attachment> attachment);
  void replace(std::shared_ptr<Attachment> next);
  Result<std::shared_ptr<Attachment>> try_attach();  // once

  const ForkGuard
      guard_;  // looked at before the mutex, which a thread of the parent may hold at the fork
  ClientOptions options_;
  std::string directory_;
  mutable std::mutex mutex_;  // owner_ and replacing
  std::shared_ptr<Attachment> owner_;
  std::atomic<Attachment*> fast_{nullptr};
  mutable std::atomic<std::uint32_t> uses_{0};
};

// The error of a handle that is closed or belongs to a fork's parent.
Error detached_error();

}  // namespace sluice::store
