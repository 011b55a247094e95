// client_page.h: the file that one client writes and the daemon reads: leases, requests and
// answers.
//
//   header | leases | touched bits | submissions | completions | board (two halves)
//
// Invariant: the client writes everything but the completions; the daemon writes completions and
//            `answers`. The daemon believes nothing it reads here: every number is copied once and
//            bounds-checked.
// Rings:     request number n >= 1 stands at index n % kRingEntries, its `number` stored last
//            (release); the answer stands at the same index, its `number` stored last. An index is
//            used again only after its answer was read.
// Threads:   any thread of the client (see attachment.h), the daemon's store loop.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "store/slot.h"

namespace sluice::store {

inline constexpr std::uint64_t kPageMagic = 0x4547415054434C53;  // "SLCTPAGE"

enum class Op : std::uint32_t {
  kNone = 0,
  kGrant = 1,       // extent_bytes -> a keyless reservation
  kReserve = 2,     // key, extent_bytes -> a keyed reservation
  kPublish = 3,     // reservation, sizes, digests; key too for a keyless one
  kAbandon = 4,     // reservation: the producer has stopped writing
  kRemove = 5,      // key
  kInvalidate = 6,  // key = prefix of key texts -> count
  kPin = 7,         // key, pin (0 unpins)
};

// Submission::flags of a kGrant that nobody waits for: being refused is not counted.
inline constexpr std::uint32_t kAskedAhead = 2;

struct Submission {
  std::atomic<std::uint64_t> number;  // stored last
  std::uint32_t op;
  std::uint32_t kind;         // ObjectKind
  std::uint64_t deadline_ns;  // of this request
  std::uint64_t reservation;
  std::uint64_t extent_bytes;
  std::uint64_t write_deadline_ns;  // of the reservation
  std::uint64_t object_bytes;
  std::uint32_t attribute_bytes;
  std::uint32_t meta_bytes;
  std::uint64_t meta_digest;
  std::uint64_t spec_digest;
  std::uint64_t content_digest;
  std::uint64_t pin;
  std::uint32_t flags;  // kPublish: Record::flags; kGrant: 0 or kAskedAhead
  std::uint16_t key_bytes;
  std::uint16_t id_at;  // offset of the escaped id in the key text
  std::array<char, kKeyBytesMax> key;
};
static_assert(std::is_standard_layout_v<Submission>);
inline constexpr std::size_t kSubmissionBytes = 1152;
static_assert(sizeof(Submission) <= kSubmissionBytes);

// What became of a request. kOk and the outcomes are success; the rest become an Error in the
// client.
enum class Answer : std::uint32_t {
  kOk = 0,
  kDuplicate = 1,
  kDivergentDuplicate = 2,
  kNotFound = 10,
  kPending = 11,
  kConflict = 12,
  kOutOfSpace = 13,
  kExpired = 14,
  kTooLarge = 15,  // more than a segment, or than the client may reserve
  kIndexFull = 16,
  kTooMany = 17,  // reservations of this client, or waiting requests
  kMalformed = 18,
  kDraining = 19,
  kUnknownReservation = 20,
};

struct alignas(64) Completion {
  std::atomic<std::uint64_t> number;  // stored last
  std::uint32_t answer;
  std::uint32_t slot;
  std::uint64_t reservation;
  std::uint64_t extent_bytes;
  std::uint64_t offset;
  std::uint32_t segment;
  std::uint32_t generation;
  std::uint64_t count;
};
static_assert(sizeof(Completion) == 64);

struct PageCounters {
  std::atomic<std::uint64_t> lookups, hits, gets, get_bytes, puts, put_bytes, corrupt;
};

struct PageHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t client;
  std::uint64_t serial;
  std::array<char, 64> label;                       // zero-terminated
  alignas(64) std::atomic<std::uint32_t> detached;  // 1: no lease, no write left; the page may go
  std::atomic<std::uint32_t> leases_high;  // lease words at and above this index were never used
  std::atomic<std::uint32_t>
      joined;  // 1: the client has mapped this page; until then it may have given up
  alignas(64) std::atomic<
      std::uint32_t> answers;  // raised by the daemon after answers; what the client sleeps on
  alignas(64) std::atomic<std::uint32_t> sleepers;  // threads of the client that sleep on `answers`
  alignas(
      64) std::atomic<std::uint64_t> board;  // {posts:32 | bytes:32}; the half in use is posts % 2
  alignas(64) PageCounters counters;
};
static_assert(sizeof(PageHeader) <= kPageBytes);

inline constexpr std::size_t kBoardHalfBytes = 64 * 1024 - kPageBytes;
static_assert(kBoardBytesMax <= kBoardHalfBytes);

struct PageLayout {
  std::uint64_t leases, touched, submissions, completions, board, bytes;
};

// Offsets inside a page file, for an index of `index_slots`.
constexpr PageLayout page_layout(std::uint32_t index_slots) noexcept {
  constexpr auto round = [](std::uint64_t n) {
    return (n + kPageBytes - 1) / kPageBytes * kPageBytes;
  };
  PageLayout l{};
  l.leases = kPageBytes;
  l.touched = l.leases + round(kLeasesPerClient * sizeof(std::uint64_t));
  l.submissions = l.touched + round((index_slots + 63) / 64 * sizeof(std::uint64_t));
  l.completions = l.submissions + round(kRingEntries * kSubmissionBytes);
  l.board = l.completions + round(kRingEntries * sizeof(Completion));
  l.bytes = l.board + 2 * kBoardHalfBytes;
  return l;
}

// A mapped page. Plain pointers into memory that the owner keeps mapped.
class PageView {
 public:
  PageView() = default;
  PageView(std::byte* base, std::uint32_t index_slots) noexcept
      : base_(base), index_slots_(index_slots), layout_(page_layout(index_slots)) {}

  explicit operator bool() const noexcept { return base_ != nullptr; }
  PageHeader& header() const noexcept { return *reinterpret_cast<PageHeader*>(base_); }
  std::atomic<std::uint64_t>& lease(std::uint32_t i) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(base_ + layout_.leases)[i];
  }
  std::atomic<std::uint64_t>& touched_word(std::uint32_t slot) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(base_ + layout_.touched)[slot / 64];
  }
  Submission& submission(std::uint64_t number) const noexcept {
    return *reinterpret_cast<Submission*>(base_ + layout_.submissions +
                                          number % kRingEntries * kSubmissionBytes);
  }
  Completion& completion(std::uint64_t number) const noexcept {
    return reinterpret_cast<Completion*>(base_ + layout_.completions)[number % kRingEntries];
  }
  std::byte* board(std::uint32_t half) const noexcept {
    return base_ + layout_.board + (half % 2) * kBoardHalfBytes;
  }
  std::uint32_t index_slots() const noexcept { return index_slots_; }

 private:
  std::byte* base_ = nullptr;
  std::uint32_t index_slots_ = 0;
  PageLayout layout_{};
};

}  // namespace sluice::store
