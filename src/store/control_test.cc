// A control segment is used only when all of its numbers fit together, and what it holds can never
// lead outside of it.
#include "store/control.h"

#include <cstring>
#include <new>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/object_store.h"
#include "store/probe.h"
#include "store/test_arena.h"

namespace sluice::store {
namespace {

constexpr std::array<std::uint64_t, 2> kSegments{64 * kPageBytes, 16 * kPageBytes};
constexpr ControlShape kShape{.objects_max = 20, .segment_bytes = kSegments};

// Page-aligned memory for one control segment.
class Memory {
 public:
  Memory()
      : bytes_(ControlView::bytes_for(kShape)),
        data_(static_cast<std::byte*>(::operator new[](bytes_, std::align_val_t{kPageBytes}))) {
    std::memset(data_, 0, bytes_);
  }
  ~Memory() { ::operator delete[](data_, std::align_val_t{kPageBytes}); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::span<std::byte> span() const noexcept { return {data_, bytes_}; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

TEST(Control, WhatWasCreatedIsFoundAsItWas) {
  const Memory memory;
  ASSERT_TRUE(ControlView::create(memory.span(), kShape, 7));
  const auto view = ControlView::validate(memory.span());
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->header().boot, 7u);
  EXPECT_EQ(view->header().arena_bytes, 80 * kPageBytes);
  EXPECT_EQ(view->header().segment_bytes[1], 16 * kPageBytes);
  EXPECT_GE(view->index_slots(), kShape.objects_max + kProbeMax);
}

TEST(Control, ATornCreationAnotherVersionAndACutFileAreRefusedEachWithItsReason) {
  const Memory memory;
  EXPECT_EQ(ControlView::validate(memory.span()).error().code, Code::kCorrupt)
      << "all zero: never completed";
  auto view = ControlView::create(memory.span(), kShape, 7);
  EXPECT_EQ(ControlView::validate(memory.span().first(100)).error().code, Code::kCorrupt);
  EXPECT_EQ(
      ControlView::validate(memory.span().first(memory.span().size() - kPageBytes)).error().code,
      Code::kCorrupt);
  view.header().version = kControlVersion + 1;
  const auto other = ControlView::validate(memory.span());
  EXPECT_EQ(other.error().code, Code::kVersion);
  EXPECT_THAT(other.error().message, testing::HasSubstr(std::to_string(kControlVersion + 1)));
}

// The fixed part of the header: magic to the last offset, and the sizes of the segments that there
// are.
TEST(Control, NoSingleBitOfTheFixedHeaderMayFlip) {
  const Memory memory;
  const auto flip_all = [&](std::size_t from, std::size_t bytes, std::string_view what) {
    for (std::size_t bit = from * 8; bit < (from + bytes) * 8; ++bit) {
      auto& byte = memory.span()[bit / 8];
      byte ^= std::byte{1} << bit % 8;
      EXPECT_FALSE(ControlView::validate(memory.span())) << what << ", bit " << bit;
      byte ^= std::byte{1} << bit % 8;
    }
  };
  auto& h = ControlView::create(memory.span(), kShape, 7).header();
  const auto at = [&](const auto& field) {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&field) -
                                    memory.span().data());
  };
  flip_all(at(h.magic), sizeof(h.magic), "magic");
  flip_all(at(h.version), 8, "version and header size");
  flip_all(at(h.control_bytes), 16, "control and arena bytes");
  flip_all(at(h.segment_count), 4, "segment count");
  flip_all(at(h.index_slots), 12, "slots and granules");
  flip_all(at(h.clients_offset), 32, "offsets");
  flip_all(at(h.segment_bytes), 16, "segment bytes");
  EXPECT_TRUE(ControlView::validate(memory.span()));
}

// Whatever the slots and records of an adopted segment say, a daemon starts on it, never gives one
// page to two owners, and a reader stays inside.
TEST(Control, ADaemonOutlivesAnyGarbageInTheSlotsAndRecords) {
  const unsigned seed = test_seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    const Memory memory;
    const auto view = ControlView::create(memory.span(), kShape, 7);
    for (int i = 0; i < 400; ++i) {
      Slot& slot = view.slot(static_cast<std::uint32_t>(random() % view.all_slots()));
      const auto number = [&](std::uint64_t small) {
        return random() % 3 == 0 ? random() : random() % small;
      };
      slot.word.store(number(8) | random() % 4 << 32);
      slot.hash_low.store(random());
      slot.reservation.store(number(50));
      slot.extent.store(number(80) | random() % 3 << 48);
      slot.extent_info.store((random() % 20) << 32 | number(300));
      slot.record_info.store(number(1100) << 32 | random() % 20);
      slot.deadline_or_pin.store(number(2000));
    }
    auto bytes = memory.span();
    for (std::uint64_t at = view.header().prefixes_offset;
         at < view.header().prefixes_offset + 40'000; at += 8) {
      if (random() % 4 == 0) bytes[at] = static_cast<std::byte>(random());
    }
    ObjectStore store(view, {.reserved_bytes_per_client = 64 * kPageBytes});
    for (std::uint32_t id = 0; id < 3; ++id) store.client_gone(id);
    for (Instant t = 1; t < 5000; t += 500) store.tick(t);
    store.flush();
    std::vector<std::uint32_t> owners(80);
    for (std::uint32_t i = 0; i < view.all_slots(); ++i) {
      const Slot& slot = view.slot(i);
      if (is_free(slot.load().state)) continue;
      const auto pages = unpack_extent_info(slot.extent_info.load()).pages;
      const auto extent =
          arena::unpack_extent(slot.extent.load(), std::uint64_t{pages} * kPageBytes);
      ASSERT_LT(extent.segment, 2u);
      ASSERT_TRUE(arena::inside(extent, kSegments[extent.segment]));
      for (std::uint32_t p = 0; p < pages; ++p) {
        EXPECT_EQ(++owners[extent.segment * 64 + extent.offset / kPageBytes + p], 1u)
            << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::store
