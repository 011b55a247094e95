// control.h: typed access to a mapped control segment.
//
// Invariant: a ControlView is only made from a mapping that passed validate(): every offset below
//            lies inside it.
// Threads:   a value; see control_layout.h for who may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <sluice/error.h>

#include "store/control_layout.h"

namespace sluice::store {

// What fixes the size of everything in a control segment.
struct ControlShape {
  std::uint32_t objects_max = 0;
  std::span<const std::uint64_t> segment_bytes;
};

class ControlView {
 public:
  ControlView() = default;

  // Bytes that a control segment of this shape takes.
  static std::uint64_t bytes_for(const ControlShape& shape) noexcept;
  // Writes the header into a zeroed mapping of bytes_for(shape) bytes; the magic goes in last.
  static ControlView create(std::span<std::byte> mapping, const ControlShape& shape,
                            std::uint64_t boot) noexcept;
  // Refuses another version, a torn creation and sizes that do not fit: kVersion or kCorrupt.
  static Result<ControlView> validate(std::span<std::byte> mapping);

  explicit operator bool() const noexcept { return base_ != nullptr; }
  ControlHeader& header() const noexcept { return *reinterpret_cast<ControlHeader*>(base_); }
  ClientEntry& client(std::uint32_t id) const noexcept {
    return reinterpret_cast<ClientEntry*>(base_ + clients_)[id];
  }
  std::span<PrefixEntry> prefixes() const noexcept {
    return {reinterpret_cast<PrefixEntry*>(base_ + prefixes_), kPrefixesMax};
  }
  // Index slots first, grant slots after them.
  Slot& slot(std::uint32_t number) const noexcept { return slots_[number]; }
  std::uint32_t index_slots() const noexcept { return index_slots_; }
  std::uint32_t all_slots() const noexcept { return index_slots_ + grant_slots_; }
  std::uint32_t record_granules() const noexcept { return record_granules_; }

  // First of the kProbeMax slots where an object with this hash may stand.
  std::uint32_t home(const Hash128& hash) const noexcept {
    const std::uint64_t range = index_slots_ - kProbeMax + 1;
    return static_cast<std::uint32_t>((static_cast<unsigned __int128>(hash.low) * range) >> 64);
  }

  // The record at a slot's record_info, or nullptr when the numbers cannot be right (a hint that
  // changed meanwhile).
  Record* record(RecordInfo info) const noexcept;
  std::string_view id_of(const Record& record, RecordInfo info) const noexcept;

 private:
  std::byte* base_ = nullptr;
  Slot* slots_ = nullptr;
  std::uint64_t clients_ = 0, prefixes_ = 0, records_ = 0;
  std::uint32_t index_slots_ = 0, grant_slots_ = 0, record_granules_ = 0;
};

}  // namespace sluice::store
