// attachment.h: one process's hold on one arena: its mappings, its page, its requests.
//
// Invariant: mappings live as long as the Attachment, and every Lease and Writer shares it: so no
//            view outlives its memory. The page says `detached` only when the last of them is gone.
// Reading:   acquire() publishes the lease (seq_cst), looks at the slot word again (seq_cst), and
//            reads the slot's other fields only then. No lock, system call, message or retry.
// Threads:   any. Requests take a short mutex while they are written into the ring, and wait
//            outside of it.
// Fork:      in a child every call answers kDetached, and destruction touches nothing shared:
//            mappings are not inherited.
// Failure:   kUnavailable while no daemon serves the arena; kDetached when the arena was replaced
//            by another.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include <sluice/client.h>

#include "arena/shared_segment.h"
#include "base/unique_fd.h"
#include "store/attach_frames.h"
#include "store/control.h"
#include "store/fork_guard.h"
#include "store/lease_slots.h"
#include "store/populated.h"
#include "store/probe.h"
#include "store/request_ring.h"
#include "tensor/bundle.h"

namespace sluice::store {

// Memory that the daemon granted to this process.
struct Grant {
  std::uint64_t reservation = 0;
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// What publish has to say about an object besides its bytes.
struct ObjectPlan {
  tensor::BundlePlan bundle;
  bool checksums = true;
  std::uint64_t pin = 0;
  std::uint8_t kind = 0;
  std::string key;  // of a keyless grant; empty for a keyed reservation
  std::size_t id_at = 0;

  std::uint64_t meta_bytes() const noexcept;
  std::uint64_t extent_bytes() const noexcept;  // object, padding, attributes, digests
};

class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  static Result<std::shared_ptr<Attachment>> attach(const std::string& directory,
                                                    const ClientOptions& options);
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  const ControlView& control() const noexcept { return control_; }
  const std::string& directory() const noexcept { return directory_; }
  std::uint32_t id() const noexcept { return id_; }
  std::uint64_t boot() const noexcept { return control_.header().boot; }
  bool ours() const noexcept { return guard_.ours(); }
  bool daemon_serves() const noexcept;  // as of now, without waiting
  bool replaced() const noexcept { return replaced_.load(std::memory_order_acquire); }
  PageCounters& counters() const noexcept { return page_view_.header().counters; }
  PageView page() const noexcept { return page_view_; }

  // --- attachment_read.cc ---
  Presence presence(const Hash128& hash) const noexcept { return look_up(control_, hash); }
  Result<Lease> acquire(const ObjectKey& key);
  Result<Lease> adopt(const Descriptor& descriptor);
  Result<Lease> lease_slot(std::uint32_t slot, std::uint32_t generation) {
    return stand(slot, generation, false);
  }
  void end_lease(std::uint32_t lease_index, const Descriptor& descriptor,
                 bool private_view) noexcept;
  std::span<const std::byte> shared_bytes(const Descriptor& d) const noexcept;
  std::span<std::byte> private_bytes(const Descriptor& d) noexcept;
  const Record& record_of(const Descriptor& d) const noexcept;
  Result<std::span<const std::byte>> meta_of(
      const Descriptor& d) const;  // checked against its digest
  std::span<const std::uint64_t> digests_in(std::span<const std::byte> meta,
                                            const Record& record) const noexcept;
  bool verified(const Descriptor& d) const noexcept;
  void set_verified(const Descriptor& d) noexcept;

  // Attaches again when the connection has ended; tries once and does not wait for a daemon to
  // come. kDetached when the arena is another one by now.
  Status ensure_daemon();
  Status usable() const;  // kDetached for a fork's child, and when another arena stands here now

  // --- attachment_write.cc ---
  Result<Answered> call(Instant deadline, const std::function<void(Submission&)>& fill);
  Result<Grant> grant_of(const Answered& answer) const;
  Result<Grant> take_grant(std::uint64_t bytes, Instant deadline, std::uint64_t write_deadline);
  void ask_ahead(std::uint64_t bytes);
  Result<PutOutcome> publish(const Grant& grant, const ObjectPlan& plan,
                             std::span<std::uint64_t> digests, Instant deadline);
  void abandon(const Grant& grant) noexcept;
  std::span<std::byte> writable(const Grant& grant) const noexcept;
  // Before a large copy into memory that the populating thread may not have reached yet.
  void map_in(const Grant& grant) noexcept;

  Status post(std::string_view text);

  // Open Writers, by token.
  struct OpenWrite {
    Grant grant;
    ObjectPlan plan;
    std::uint64_t timeout_ns = 0;
  };
  std::uint64_t add_write(OpenWrite write);
  std::optional<OpenWrite> take_write(std::uint64_t token);
  std::span<std::byte> write_bytes(std::uint64_t token);

 private:
  Attachment() = default;
  Status connect(const AttachRequest& request);
  Status reattach();
  void forget_mappings() noexcept;

  void ring_doorbell() const noexcept;
  void give_back_late_grants();
  void start_populating(std::uint64_t bytes_max);
  Result<Lease> stand(std::uint32_t slot, std::uint32_t generation, bool retired_is_fine);
  Result<Lease> make_lease(std::uint32_t slot, std::uint32_t generation, std::uint32_t lease_index);
  void clear_lease(std::uint32_t index) noexcept;

  ForkGuard guard_;
  std::string directory_;
  std::uint32_t id_ = 0;
  std::uint64_t serial_ = 0;
  std::uint64_t grant_ahead_bytes_ = 0;
  std::array<char, kLabelBytes> label_{};
  arena::Mapping control_mapping_;
  ControlView control_;
  arena::Mapping page_mapping_;
  PageView page_view_;
  std::vector<UniqueFd> segment_fds_;
  std::vector<arena::Mapping> segments_;
  std::vector<PopulatedWindows> populated_;  // by segment

  std::mutex private_mutex_;  // making a private mapping
  std::vector<arena::Mapping> private_segments_;
  std::vector<std::atomic<std::byte*>> private_bases_;

  LeaseSlots lease_slots_;
  std::vector<std::atomic<std::uint32_t>>
      verified_;  // by slot: the generation whose chunks were all right

  mutable std::mutex connection_mutex_;
  UniqueFd socket_;
  UniqueFd doorbell_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<bool> replaced_{false};

  std::unique_ptr<RequestRing> ring_;
  std::mutex grants_mutex_;
  std::vector<Grant> grants_;  // granted ahead, not yet used
  std::uint64_t asked_ahead_bytes_ = 0;
  std::mutex board_mutex_;
  std::mutex unsaid_mutex_;
  std::vector<Grant> unsaid_;  // to abandon, once the ring has room
  std::mutex writes_mutex_;
  std::uint64_t next_token_ = 1;
  std::unordered_map<std::uint64_t, OpenWrite> writes_;

  std::jthread populator_;  // last: ends before the mappings
};

}  // namespace sluice::store
