// The part of Attachment that reads: leases, views, verification.
#include <fmt/format.h>

#include "arena/extent.h"
#include "base/check.h"
#include "base/checked.h"
#include "store/attachment.h"

namespace sluice::store {
namespace {

Error missing(const ObjectKey& key, Presence presence) {
  if (presence == Presence::kPending) {
    return {Code::kPending, Drop::kNothing,
            fmt::format("{}: a writer is at work on it; wait for it", key.text())};
  }
  return {Code::kNotFound, Drop::kNothing, fmt::format("{}: no such object", key.text())};
}

// What the kernel maps in around a page that is read (its fault_around_bytes, where nobody changed
// it).
constexpr std::uint64_t kFaultAroundBytes = 64 * 1024;

// One call for each such window: less than half of what the same faults cost in the middle of a
// copy.
void map_in_windows(std::span<std::byte> range) noexcept {
  for (std::uint64_t at = 0; at < range.size();) {
    if (!arena::populate(range.subspan(at, 1), arena::Touch::kRead))
      return;  // the reader's faults will do
    at +=
        kFaultAroundBytes - reinterpret_cast<std::uintptr_t>(range.data() + at) % kFaultAroundBytes;
  }
}

}  // namespace

void Attachment::clear_lease(std::uint32_t index) noexcept {
  page_view_.lease(index).store(0, std::memory_order_release);
  lease_slots_.give_back(index);
}

// Publishes a lease and looks again. Everything else about the slot may be read once this has
// answered.
Result<Lease> Attachment::stand(std::uint32_t slot, std::uint32_t generation,
                                bool retired_is_fine) {
  const auto index = lease_slots_.claim();
  if (!index) {
    return fail(Code::kLimit,
                fmt::format("this process holds {} leases, which is the limit: release some",
                            kLeasesPerClient));
  }
  auto& high = page_view_.header().leases_high;
  for (std::uint32_t seen = high.load(std::memory_order_relaxed);
       seen <= *index &&
       !high.compare_exchange_weak(seen, *index + 1, std::memory_order_seq_cst);) {
  }
  page_view_.lease(*index).store(lease_word(slot, generation), std::memory_order_seq_cst);
  const SlotWord word = control_.slot(slot).load(std::memory_order_seq_cst);
  const bool stands =
      word.generation == generation && (word.state == SlotState::kPublished ||
                                        (retired_is_fine && word.state == SlotState::kRetired));
  if (!stands) {
    clear_lease(*index);
    return fail(Code::kNotFound, "the object was removed meanwhile");
  }
  return make_lease(slot, generation, *index);
}

Result<Lease> Attachment::make_lease(std::uint32_t slot, std::uint32_t generation,
                                     std::uint32_t lease_index) {
  const Slot& s = control_.slot(slot);
  const ExtentInfo info = unpack_extent_info(s.extent_info.load(std::memory_order_relaxed));
  const arena::Extent extent =
      arena::unpack_extent(s.extent.load(std::memory_order_relaxed),
                           static_cast<std::uint64_t>(info.pages) * kPageBytes);
  const Record* record =
      control_.record(unpack_record_info(s.record_info.load(std::memory_order_relaxed)));
  const bool whole = record != nullptr && extent.segment < segments_.size() &&
                     arena::inside(extent, segments_[extent.segment].size()) &&
                     record->object_bytes <= extent.bytes &&
                     fits(align_up(record->object_bytes, 64), record->meta_bytes, extent.bytes);
  if (!whole) {
    clear_lease(lease_index);
    return fail(Code::kCorrupt,
                fmt::format("slot {} of the index names bytes outside the arena", slot),
                Drop::kObject);
  }
  Lease lease;
  lease.attachment_ = shared_from_this();
  lease.descriptor_ = {.boot = boot(),
                       .slot = slot,
                       .generation = generation,
                       .segment = extent.segment,
                       .offset = extent.offset,
                       .object_bytes = record->object_bytes};
  lease.lease_index_ = lease_index;
  return lease;
}

Result<Lease> Attachment::acquire(const ObjectKey& key) {
  const Hash128 hash = hash_of(key.text());
  Presence presence = Presence::kAbsent;
  std::optional<Result<Lease>> answer;
  probe(control_, hash, [&](std::uint32_t slot, SlotWord word) {
    if (word.state == SlotState::kReserved) presence = Presence::kPending;
    if (word.state != SlotState::kPublished) return false;
    auto lease = stand(slot, word.generation, false);
    if (!lease) {
      if (lease.error().code == Code::kNotFound) return false;  // gone meanwhile: another key now
      answer = std::move(lease);
      return true;
    }
    if (!same_key(control_, control_.slot(slot), key.prefix_text(), key.id_text())) return false;
    auto& touched = page_view_.touched_word(slot);
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    if ((touched.load(std::memory_order_relaxed) & bit) == 0)
      touched.fetch_or(bit, std::memory_order_relaxed);
    answer = std::move(lease);
    return true;
  });
  if (!answer) return std::unexpected(missing(key, presence));
  return std::move(*answer);
}

Result<Lease> Attachment::adopt(const Descriptor& d) {
  if (d.boot != boot()) {
    return fail(Code::kDetached,
                "the descriptor belongs to another arena, or to one that was replaced");
  }
  if (d.slot >= control_.index_slots() || d.generation == 0) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("descriptor: slot {} generation {} cannot exist", d.slot, d.generation));
  }
  auto lease = stand(d.slot, d.generation, true);
  if (lease && lease->descriptor() != d) {
    return fail(Code::kInvalidArgument,
                "descriptor: offset and length are not those of the object in this slot");
  }
  // The taker reads all of it in a moment, and in a process that uses private views through one.
  if (std::byte* base =
          lease ? private_bases_[d.segment].load(std::memory_order_acquire) : nullptr) {
    map_in_windows({base + d.offset, d.object_bytes});
  }
  return lease;
}

void Attachment::end_lease(std::uint32_t lease_index, const Descriptor& d,
                           bool private_view) noexcept {
  if (!ours()) return;
  if (private_view) {
    // Or this process would read its own stale page inside the next object.
    const std::uint64_t bytes = align_up(d.object_bytes, kPageBytes);
    [[maybe_unused]] const auto dropped =
        private_segments_[d.segment].drop_private_pages(d.offset, bytes);
    CHECK(dropped.has_value());
  }
  clear_lease(lease_index);
}

std::span<const std::byte> Attachment::shared_bytes(const Descriptor& d) const noexcept {
  return segments_[d.segment].bytes().subspan(d.offset, d.object_bytes);
}

std::span<std::byte> Attachment::private_bytes(const Descriptor& d) noexcept {
  std::byte* base = private_bases_[d.segment].load(std::memory_order_acquire);
  if (base == nullptr) {
    const std::scoped_lock lock(private_mutex_);
    arena::Mapping& mapping = private_segments_[d.segment];
    if (!mapping) {
      auto made = arena::map_segment(segment_fds_[d.segment].get(), segments_[d.segment].size(),
                                     {.access = arena::Access::kPrivate, .huge_pages = true});
      if (!made) return {};
      mapping = std::move(*made);
      private_bases_[d.segment].store(mapping.data(), std::memory_order_release);
    }
    base = mapping.data();
  }
  return {base + d.offset, d.object_bytes};
}

const Record& Attachment::record_of(const Descriptor& d) const noexcept {
  const Record* record = control_.record(
      unpack_record_info(control_.slot(d.slot).record_info.load(std::memory_order_relaxed)));
  CHECK(record != nullptr);  // looked at when the lease was made; a leased slot does not change
  return *record;
}

Result<std::span<const std::byte>> Attachment::meta_of(const Descriptor& d) const {
  const Record& record = record_of(d);
  const std::span<const std::byte> meta = segments_[d.segment].bytes().subspan(
      d.offset + align_up(record.object_bytes, 64), record.meta_bytes);
  const std::uint64_t digests = (record.flags & kHasChecksums) != 0
                                    ? chunk_count(record.object_bytes) * sizeof(std::uint64_t)
                                    : 0;
  const std::uint64_t attributes = align_up(record.attribute_bytes, 8);
  if (attributes > meta.size() || digests != meta.size() - attributes ||
      hash64(meta) != record.meta_digest) {
    return fail(Code::kCorrupt, "attributes and digests do not match their checksum",
                Drop::kObject);
  }
  return meta;
}

std::span<const std::uint64_t> Attachment::digests_in(std::span<const std::byte> meta,
                                                      const Record& record) const noexcept {
  const std::span<const std::byte> rest = meta.subspan(align_up(record.attribute_bytes, 8));
  return {reinterpret_cast<const std::uint64_t*>(rest.data()), rest.size() / sizeof(std::uint64_t)};
}

bool Attachment::verified(const Descriptor& d) const noexcept {
  return verified_[d.slot].load(std::memory_order_acquire) == d.generation;
}

void Attachment::set_verified(const Descriptor& d) noexcept {
  verified_[d.slot].store(d.generation, std::memory_order_release);
}

}  // namespace sluice::store
