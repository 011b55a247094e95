#include "store/control.h"

#include <new>

#include <fmt/format.h>

#include "base/checked.h"

namespace sluice::store {
namespace {

// Index slots for a number of objects: a load of at most 0.72 keeps probes far below kProbeMax.
std::uint32_t index_slots_for(std::uint32_t objects_max) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(objects_max) * 25 / 18) + kProbeMax;
}

// Two granules an object hold ids of up to 72 bytes; a share on top for longer ones.
std::uint32_t record_granules_for_objects(std::uint32_t objects_max) noexcept {
  const std::uint64_t n = static_cast<std::uint64_t>(objects_max) * 2 + objects_max / 16 + 1024;
  return static_cast<std::uint32_t>(n);
}

struct Offsets {
  std::uint64_t clients, prefixes, slots, records, bytes;
};

Offsets offsets_for(std::uint32_t index_slots, std::uint32_t grant_slots,
                    std::uint32_t granules) noexcept {
  Offsets o{};
  o.clients = kPageBytes;
  o.prefixes = o.clients + align_up(kClientsMax * sizeof(ClientEntry), kPageBytes);
  o.slots = o.prefixes + align_up(kPrefixesMax * sizeof(PrefixEntry), kPageBytes);
  const std::uint64_t slots = static_cast<std::uint64_t>(index_slots) + grant_slots;
  o.records = o.slots + align_up(slots * sizeof(Slot), kPageBytes);
  o.bytes = o.records + align_up(static_cast<std::uint64_t>(granules) * kGranuleBytes, kPageBytes);
  return o;
}

}  // namespace

std::uint64_t ControlView::bytes_for(const ControlShape& shape) noexcept {
  return offsets_for(index_slots_for(shape.objects_max), kGrantSlots,
                     record_granules_for_objects(shape.objects_max))
      .bytes;
}

ControlView ControlView::create(std::span<std::byte> mapping, const ControlShape& shape,
                                std::uint64_t boot) noexcept {
  auto& h = *new (mapping.data()) ControlHeader{};
  h.version = kControlVersion;
  h.header_bytes = sizeof(ControlHeader);
  h.boot = boot;
  h.control_bytes = bytes_for(shape);
  h.segment_count = static_cast<std::uint32_t>(shape.segment_bytes.size());
  for (std::size_t i = 0; i < shape.segment_bytes.size(); ++i) {
    h.segment_bytes[i] = shape.segment_bytes[i];
    h.arena_bytes += shape.segment_bytes[i];
  }
  h.objects_max = shape.objects_max;
  h.index_slots = index_slots_for(shape.objects_max);
  h.grant_slots = kGrantSlots;
  h.record_granules = record_granules_for_objects(shape.objects_max);
  const Offsets o = offsets_for(h.index_slots, h.grant_slots, h.record_granules);
  h.clients_offset = o.clients;
  h.prefixes_offset = o.prefixes;
  h.slots_offset = o.slots;
  h.records_offset = o.records;
  h.next_client_serial.store(1, std::memory_order_relaxed);
  h.magic.store(kControlMagic, std::memory_order_release);
  return *validate(mapping);
}

Result<ControlView> ControlView::validate(std::span<std::byte> mapping) {
  if (mapping.size() < kPageBytes) {
    return fail(Code::kCorrupt,
                fmt::format("control segment has {} bytes; its header alone takes {}",
                            mapping.size(), kPageBytes),
                Drop::kSegment);
  }
  auto& h = *reinterpret_cast<ControlHeader*>(mapping.data());
  if (h.magic.load(std::memory_order_acquire) != kControlMagic) {
    return fail(Code::kCorrupt,
                "control segment was never completed, or is not Sluice's: magic differs",
                Drop::kSegment);
  }
  if (h.version != kControlVersion || h.header_bytes != sizeof(ControlHeader)) {
    return fail(
        Code::kVersion,
        fmt::format(
            "control segment has version {}, this program reads version {}; stop every process of "
            "the arena and remove its folder",
            h.version, kControlVersion),
        Drop::kSegment);
  }
  const auto corrupt = [](std::string_view what) {
    return fail(Code::kCorrupt, fmt::format("control segment: {} out of range", what),
                Drop::kSegment);
  };
  if (h.objects_max == 0 || h.objects_max > kObjectsMax) return corrupt("objects_max");
  if (h.segment_count == 0 || h.segment_count > kSegmentsMax) return corrupt("segment count");
  if (h.index_slots != index_slots_for(h.objects_max) || h.grant_slots != kGrantSlots ||
      h.record_granules != record_granules_for_objects(h.objects_max)) {
    return corrupt("index size");
  }
  const Offsets o = offsets_for(h.index_slots, h.grant_slots, h.record_granules);
  if (h.clients_offset != o.clients || h.prefixes_offset != o.prefixes ||
      h.slots_offset != o.slots || h.records_offset != o.records || h.control_bytes != o.bytes ||
      mapping.size() != o.bytes) {
    return corrupt("offsets");
  }
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < h.segment_count; ++i) {
    const auto sum = checked_add(total, h.segment_bytes[i]);
    if (!sum || h.segment_bytes[i] == 0 || h.segment_bytes[i] % kPageBytes != 0)
      return corrupt("segment size");
    total = *sum;
  }
  if (total != h.arena_bytes) return corrupt("arena size");

  ControlView view;
  view.base_ = mapping.data();
  view.slots_ = reinterpret_cast<Slot*>(mapping.data() + o.slots);
  view.clients_ = o.clients;
  view.prefixes_ = o.prefixes;
  view.records_ = o.records;
  view.index_slots_ = h.index_slots;
  view.grant_slots_ = h.grant_slots;
  view.record_granules_ = h.record_granules;
  return view;
}

Record* ControlView::record(RecordInfo info) const noexcept {
  if (info.granules == 0 || !fits(info.granule, info.granules, record_granules_)) return nullptr;
  return reinterpret_cast<Record*>(base_ + records_ +
                                   static_cast<std::uint64_t>(info.granule) * kGranuleBytes);
}

std::string_view ControlView::id_of(const Record& record, RecordInfo info) const noexcept {
  const std::size_t room = static_cast<std::size_t>(info.granules) * kGranuleBytes - sizeof(Record);
  if (record.id_bytes > room) return {};
  return {reinterpret_cast<const char*>(&record) + sizeof(Record), record.id_bytes};
}

}  // namespace sluice::store
