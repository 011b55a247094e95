// The control segment: bytes of the header, then of the slots, are overwritten in one that is right. What validate()
// accepts, a daemon can go on from and a reader can look into, and no page has two owners.
//
// Input: pairs {u32 place, u32 value}; the first byte says how many of them go into the header.
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "arena/extent.h"
#include "base/bytes.h"
#include "base/check.h"
#include "fuzz_target.h"
#include "store/object_store.h"
#include "store/probe.h"

namespace {

using namespace sluice;
using namespace sluice::store;

constexpr std::array<std::uint64_t, 2> kSegments{32 * kPageBytes, 8 * kPageBytes};
constexpr ControlShape kShape{.objects_max = 4, .segment_bytes = kSegments};

struct Free {
  void operator()(std::byte* p) const noexcept {
    ::operator delete[](p, std::align_val_t{kPageBytes});
  }
};

// Made once: creating it for every input would be most of the time. Restored before each.
std::span<std::byte> template_bytes() {
  static const std::vector<std::byte> bytes = [] {
    std::unique_ptr<std::byte[], Free> memory(static_cast<std::byte*>(
        ::operator new[](ControlView::bytes_for(kShape), std::align_val_t{kPageBytes})));
    const std::span span(memory.get(), ControlView::bytes_for(kShape));
    std::memset(span.data(), 0, span.size());
    ControlView::create(span, kShape, 1);
    return std::vector<std::byte>(span.begin(), span.end());
  }();
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

void look_into(const ControlView& view) {
  for (std::uint32_t i = 0; i < view.all_slots(); i += 7) {
    const auto info = unpack_record_info(view.slot(i).record_info.load());
    if (const Record* record = view.record(info)) {
      CHECK(view.id_of(*record, info).size() <= std::size_t{info.granules} * kGranuleBytes);
      [[maybe_unused]] const auto text = prefix_text(view.prefixes(), record->prefix);
    }
  }
  [[maybe_unused]] const auto presence = look_up(view, view.slot(0).hash());
}

void expect_one_owner_each(const ControlView& view) {
  std::array<std::array<bool, 32>, 2> taken{};
  for (std::uint32_t i = 0; i < view.all_slots(); ++i) {
    if (is_free(view.slot(i).load().state)) continue;
    const auto pages = unpack_extent_info(view.slot(i).extent_info.load()).pages;
    const auto extent =
        arena::unpack_extent(view.slot(i).extent.load(), std::uint64_t{pages} * kPageBytes);
    CHECK(extent.segment < kSegments.size() && arena::inside(extent, kSegments[extent.segment]));
    for (std::uint64_t p = extent.offset / kPageBytes; p < extent.offset / kPageBytes + pages;
         ++p) {
      CHECK(!std::exchange(taken[extent.segment][p], true));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto original = template_bytes();
  std::unique_ptr<std::byte[], Free> memory(
      static_cast<std::byte*>(::operator new[](original.size(), std::align_val_t{kPageBytes})));
  const std::span bytes(memory.get(), original.size());
  std::memcpy(bytes.data(), original.data(), original.size());

  ByteReader input(fuzz::bytes_of(data + 1, size - 1));
  const auto good = *ControlView::validate(bytes);
  // Taken before anything is overwritten.
  const std::uint64_t slots_at = good.header().slots_offset;
  const std::array<std::uint64_t, 4> begin{slots_at, slots_at + good.index_slots() * sizeof(Slot),
                                           good.header().prefixes_offset,
                                           good.header().records_offset};
  for (std::uint32_t left = data[0];; left -= left != 0) {
    const auto place = input.read<std::uint32_t>();
    const auto value = input.read<std::uint32_t>();
    if (!input.ok()) break;
    // Places in the header, the first index and grant slots, the prefixes and the records.
    std::uint64_t at = 0;
    if (left != 0) {
      at = place % (sizeof(ControlHeader) / 4) * 4;
    } else {
      at = begin[place % 4] + place / 4 % 512 * 4;
    }
    std::memcpy(bytes.data() + at, &value, 4);
  }
  const auto view = ControlView::validate(bytes);
  if (!view) {
    CHECK(!view.error().message.empty());
    return 0;
  }
  // The segments' sizes may have been exchanged for others of the same sum: the extents' check is for those that stand.
  look_into(*view);
  const bool same_segments = view->header().segment_count == 2 &&
                             view->header().segment_bytes[0] == kSegments[0] &&
                             view->header().segment_bytes[1] == kSegments[1];
  if (!same_segments) return 0;
  ObjectStore store(*view, {.reserved_bytes_per_client = 8 * kPageBytes});
  for (std::uint32_t id = 0; id < 2; ++id) store.client_gone(id);
  for (const Instant t : {Instant{1}, Instant{1'000'000}, Instant{UINT64_MAX / 2}}) store.tick(t);
  store.flush();
  expect_one_owner_each(*view);
  look_into(*view);
  return 0;
}
