// client.h: how a process uses the arena of its machine.
//
// A Client is one attachment of this process. Look-up, acquire, get and map only read shared
// memory: they use no lock, system call or message, and go on while the daemon is down. Everything
// that changes the arena is a request to the daemon with a deadline.
//
// Threads:  a Client may be used from any thread. A Lease or Writer has one owner at a time.
// Lifetime: a Lease keeps its mapping alive, so it may outlive its Client.
// Fork:     the child's handles answer `detached`; it attaches anew. The parent is not affected.
// Failure:  every call returns a Result; a dead daemon is `unavailable`, and the next request
//           attaches again by itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>
#include <sluice/object_key.h>
#include <sluice/tensor.h>

namespace sluice {

namespace store {
class Attachment;
class Session;
}  // namespace store

enum class Presence : std::uint8_t { kAbsent, kPending, kPresent };
std::string_view name(Presence presence) noexcept;  // "absent", "pending", "present"
enum class Verify : std::uint8_t { kOnce, kAlways, kNever };

struct ClientOptions {
  std::string arena = "default";  // a name, found under the default directory, or
  std::string directory;          // the arena's folder itself; wins over the name
  std::string label;              // shown by `sluice top`, at most 63 bytes
  std::chrono::milliseconds attach_timeout{2000};
  Verify verify = Verify::kOnce;
  std::uint64_t grant_ahead_bytes = 64u << 20;  // extents asked for before they are needed, at most
  std::uint64_t populate_bytes_max = std::uint64_t{8}
                                     << 30;  // of the arena, mapped in by a helper thread at attach
};

// Where an object lies, for a worker of the same engine that maps it without a look-up.
struct Descriptor {
  std::uint64_t boot = 0;  // identity of this arena's contents
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;  // of the object's first byte in its segment
  std::uint64_t object_bytes = 0;

  bool operator==(const Descriptor&) const = default;
};

// A stretch of a tensor's bytes, and the memory elsewhere that it is copied from or to.
struct MemoryRun {
  std::uint64_t offset = 0;  // in the tensor's elements
  std::byte* memory = nullptr;
  std::uint64_t bytes = 0;
};

// Gives the next runs of a copy, an empty batch at the end. A batch stays valid until the next call.
using RunSource = std::function<std::span<const MemoryRun>()>;

// A view of one published object. While it lives the bytes stay where they are.
class Lease {
 public:
  Lease() noexcept = default;
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  explicit operator bool() const noexcept { return attachment_ != nullptr; }

  // The object's bytes (the bundle), shared by all readers: must not be written.
  std::span<const std::byte> bytes() const noexcept;
  // The same bytes through this process's private mapping: a stray write stays in this process and
  // is dropped when the lease ends. This is what tensors handed to an engine point into.
  std::span<std::byte> private_bytes() const noexcept;

  Result<std::vector<TensorView>> tensors()
      const;  // headers decoded and checked against the object's length
  Result<Attributes> attributes() const;
  const Descriptor& descriptor() const noexcept { return descriptor_; }

  // Checks every chunk against its digest; remembered per (slot, generation) in this process.
  Status verify(Verify mode = Verify::kOnce) const;
  bool verified() const noexcept;
  bool has_checksums() const noexcept;

  // Copies [offset, offset + to.size()) of the object's bytes, verifying the chunks it touches.
  Status read(std::uint64_t offset, std::span<std::byte> to) const;
  // Copies all of it, verified in the same pass. Requires to.size() == bytes().size().
  Status copy_to(std::span<std::byte> to) const;
  // Copies runs of `tensor` (one of tensors()) to their memory and verifies the whole object in the
  // same pass: each chunk is checked before a byte of it is copied. Runs ascend and do not overlap.
  // On failure what was copied so far is of no use. `mode` as in verify().
  Status copy_runs(const TensorView& tensor, const RunSource& runs,
                   Verify mode = Verify::kOnce) const;

  void release() noexcept;

 private:
  friend class store::Attachment;
  std::shared_ptr<store::Attachment>
      attachment_;  // shared: the mapping must outlive the last view of it
  Descriptor descriptor_;
  std::uint32_t lease_index_ = 0;
  mutable bool private_view_ = false;
};

struct PutOptions {
  // For the grant and for the publish; a daemon that is late has a second more.
  std::chrono::milliseconds timeout{5000};
  std::chrono::milliseconds write_timeout{
      60000};  // a reservation that is not published by then expires
  bool checksums = true;
  std::optional<std::chrono::milliseconds>
      soft_pin;           // keep until then, or until nothing else is left to evict
  bool hard_pin = false;  // keep until unpinned
};

enum class PutOutcome : std::uint8_t {
  kPublished,
  kDuplicate,           // the same object was there already; it stays
  kDivergentDuplicate,  // the same key and spec with other bytes was there already; it stays, and is counted
};
std::string_view name(PutOutcome outcome) noexcept;  // "published", "duplicate", ...

// A reservation being written. Dropped without publish() it is abandoned.
class Writer {
 public:
  Writer() noexcept = default;
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  explicit operator bool() const noexcept { return attachment_ != nullptr; }

  const std::vector<TensorView>& tensors() const noexcept {
    return tensors_;
  }  // headers are written already
  std::span<std::byte> bytes() const noexcept;                  // the whole object
  std::span<std::byte> data(std::size_t index) const noexcept;  // elements of tensor `index`

  // Copies the elements of tensor `index` in and computes the digests in the same pass, so that
  // publish() need not read the object again. Runs follow each other without gap from 0 to the
  // tensor's end. Must be the last write to the object: what is written later does not match its
  // digests. On failure publish() computes them as if this had not been called.
  Status fill(std::size_t index, const RunSource& runs);

  // The caller's word that its last write is done. Computes the digests unless they are off or
  // fill() did.
  // `timeout`: for the daemon's answer; nothing: that of the reservation's options.
  Result<PutOutcome> publish(std::optional<std::chrono::milliseconds> timeout = {});
  Status abandon();

 private:
  friend class Client;
  std::shared_ptr<store::Attachment> attachment_;  // shared for the same reason as in Lease
  std::vector<TensorView> tensors_;
  std::vector<std::uint64_t> digests_;  // of a fill(); else empty
  std::uint64_t token_ = 0;             // of the pending write inside the attachment
  bool checksums_ = true;
};

// One tensor to put: its spec and its elements, C-contiguous in host memory.
struct TensorInput {
  std::string name = "tensor";
  TensorSpec spec;
  std::span<const std::byte> data;
};

struct ObjectInfo {
  std::string key;
  std::uint64_t object_bytes = 0;
  std::uint64_t extent_bytes = 0;
  std::uint64_t created_ns = 0;  // CLOCK_MONOTONIC
  bool checksums = false;
  bool hard_pinned = false;
  std::uint64_t soft_pinned_until_ns = 0;
  Presence presence = Presence::kPresent;
};

struct KindStats {
  std::uint64_t objects = 0, object_bytes = 0;
  std::uint64_t puts = 0, duplicates = 0, evictions = 0, removals = 0;
};

struct ArenaStats {
  std::uint64_t boot = 0, epoch = 0;  // epoch counts the daemon's starts
  bool daemon_alive = false;
  std::int64_t daemon_pid = 0;
  std::uint64_t arena_bytes = 0, used_bytes = 0, reserved_bytes = 0;
  std::uint64_t objects = 0, objects_max = 0, clients = 0, leases = 0;
  std::uint64_t published_total = 0, duplicates_total = 0, divergent_duplicates_total = 0,
                conflicts_total = 0;
  std::uint64_t evictions_total = 0, removals_total = 0, expired_total = 0, abandoned_total = 0;
  std::uint64_t out_of_space_total = 0, reclaimed_of_dead_total = 0, refused_total = 0;
  std::uint64_t index_bytes = 0, record_bytes = 0;
  std::vector<KindStats> kinds;  // by ObjectKind
};

struct ClientInfo {
  std::uint32_t id = 0;
  std::int64_t pid = 0;
  bool alive = false;
  std::string label;
  std::uint64_t leases = 0, reserved_bytes = 0;
  std::uint64_t lookups = 0, hits = 0, gets = 0, get_bytes = 0, puts = 0, put_bytes = 0,
                corrupt = 0;
  std::string board;  // what the process posted for its peers
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> attach(const ClientOptions& options = {});
  ~Client();  // detaches; leases that still live keep their mapping and end with it
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool attached()
      const noexcept;  // false after close(), in a fork's child, or while no daemon runs
  std::uint64_t boot() const noexcept;
  std::uint32_t id() const noexcept;
  std::string directory() const;
  void close();
  // Attaches to what serves the arena's folder now. Requests do so by themselves; a process that
  // only reads calls this to follow an arena that was replaced (boot() changes). Leases of the old
  // one stay valid.
  Status reattach(std::chrono::milliseconds timeout = std::chrono::seconds(2));

  // --- reading: wait-free ---
  Presence lookup(const ObjectKey& key) const;
  void lookup(std::span<const ObjectKey> keys, std::span<Presence> out) const;  // same length
  Result<Lease> acquire(const ObjectKey& key) const;                            // no verification
  Result<Lease> get(const ObjectKey& key, std::optional<Verify> verify = {}) const;
  // Takes an own lease on an object that the giver still holds a lease on (it may have been removed
  // meanwhile).
  Result<Lease> adopt(const Descriptor& descriptor) const;

  // Waits until every key is present, or the deadline passes; returns what each key is then. At
  // most 4096 keys.
  Result<std::vector<Presence>> wait(std::span<const ObjectKey> keys,
                                     std::chrono::milliseconds timeout) const;

  // --- writing: requests to the daemon ---
  Result<PutOutcome> put(const ObjectKey& key, std::span<const TensorInput> tensors,
                         const Attributes& attributes = {}, const PutOptions& options = {});
  // Keyed: look-ups answer `pending` from here on. `pending` or `conflict` when somebody else was
  //        first; kDuplicate is
  // reported as Code::kConflict only when specs differ, otherwise as an empty Writer (operator bool
  // is false).
  Result<Writer> reserve(const ObjectKey& key, std::span<const NamedTensorSpec> specs,
                         const Attributes& attributes = {}, const PutOptions& options = {});
  Status remove(const ObjectKey& key, std::chrono::milliseconds timeout = std::chrono::seconds(5));
  // Removes every object whose key text starts with `prefix`; returns how many.
  Result<std::uint64_t> invalidate(std::string_view prefix,
                                   std::chrono::milliseconds timeout = std::chrono::seconds(5));
  Status pin(const ObjectKey& key,
             std::optional<std::chrono::milliseconds> soft_ttl);  // nothing: hard
  Status unpin(const ObjectKey& key);

  // --- seeing ---
  std::vector<ObjectInfo> list(std::string_view prefix, std::size_t limit = SIZE_MAX) const;
  ArenaStats stats() const;
  std::vector<ClientInfo> clients() const;

  // Posts text for the peers of this arena (engine records, acknowledgements, counters); the last
  // post wins and is read whole or not at all. At most 60 KiB.
  Status post(std::string_view text);

 private:
  explicit Client(std::unique_ptr<store::Session> session);
  std::unique_ptr<store::Session> session_;
};

}  // namespace sluice
