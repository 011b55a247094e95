#include "arena/extent_allocator.h"

#include <iterator>

#include "base/check.h"

namespace sluice::arena {

ExtentAllocator::ExtentAllocator(std::span<const std::uint64_t> segment_bytes) {
  CHECK(segment_bytes.size() <= kSegmentsMax);
  std::uint64_t first = 0;
  for (const std::uint64_t bytes : segment_bytes) {
    const std::uint64_t pages = bytes / kPageBytes;
    CHECK(pages < kPackedPagesMax);
    segments_.push_back({.first = first, .pages = pages});
    if (pages != 0) add({.first = first, .pages = pages});
    total_pages_ += pages;
    first += pages + 1;
  }
}

std::optional<Extent> ExtentAllocator::allocate(std::uint64_t bytes) {
  if (bytes == 0) return std::nullopt;
  const std::uint64_t pages = bytes / kPageBytes + (bytes % kPageBytes != 0);
  const auto found = by_length_.lower_bound({pages, 0});
  if (found == by_length_.end()) return std::nullopt;
  const Run from{.first = found->second, .pages = found->first};
  const Run taken{.first = from.first, .pages = pages};
  carve(from, taken);
  return to_extent(taken);
}

bool ExtentAllocator::reserve(const Extent& extent) {
  const auto run = to_run(extent);
  if (!run) return false;
  auto after = by_start_.upper_bound(run->first);
  if (after == by_start_.begin()) return false;
  const auto& [first, pages] = *std::prev(after);
  if (!fits(run->first - first, run->pages, pages)) return false;
  carve({.first = first, .pages = pages}, *run);
  return true;
}

void ExtentAllocator::free(const Extent& extent) {
  const auto run = to_run(extent);
  CHECK(run);
  Run merged = *run;
  const auto after = by_start_.lower_bound(run->first);
  const bool has_after = after != by_start_.end();
  const Run next = has_after ? Run{.first = after->first, .pages = after->second} : Run{};
  CHECK(!has_after || next.first - run->first >= run->pages);
  if (after != by_start_.begin()) {
    const auto before = std::prev(after);
    const Run previous{.first = before->first, .pages = before->second};
    CHECK(previous.first + previous.pages <= run->first);
    if (previous.first + previous.pages == run->first) {
      remove(previous);
      merged = {.first = previous.first, .pages = previous.pages + merged.pages};
    }
  }
  if (has_after && next.first == run->first + run->pages) {
    remove(next);
    merged.pages += next.pages;
  }
  add(merged);
}

Extent ExtentAllocator::trim(const Extent& extent, std::uint64_t bytes) {
  CHECK(bytes <= extent.bytes);
  const std::uint64_t kept = bytes == 0 ? kPageBytes : align_up(bytes, kPageBytes);
  if (kept == extent.bytes) return extent;
  free({.segment = extent.segment, .offset = extent.offset + kept, .bytes = extent.bytes - kept});
  return {.segment = extent.segment, .offset = extent.offset, .bytes = kept};
}

std::uint64_t ExtentAllocator::largest_free() const noexcept {
  return by_length_.empty() ? 0 : by_length_.rbegin()->first * kPageBytes;
}

std::optional<ExtentAllocator::Run> ExtentAllocator::to_run(const Extent& extent) const noexcept {
  if (extent.segment >= segments_.size()) return std::nullopt;
  const Segment& segment = segments_[extent.segment];
  if (!inside(extent, segment.pages * kPageBytes)) return std::nullopt;
  return Run{.first = segment.first + extent.offset / kPageBytes,
             .pages = extent.bytes / kPageBytes};
}

Extent ExtentAllocator::to_extent(const Run& run) const noexcept {
  std::uint32_t number = 0;
  while (run.first >= segments_[number].first + segments_[number].pages) ++number;
  return {.segment = number,
          .offset = (run.first - segments_[number].first) * kPageBytes,
          .bytes = run.pages * kPageBytes};
}

void ExtentAllocator::add(const Run& run) {
  by_start_.emplace(run.first, run.pages);
  by_length_.emplace(run.pages, run.first);
  free_pages_ += run.pages;
}

void ExtentAllocator::remove(const Run& run) {
  CHECK(by_start_.erase(run.first) == 1);
  CHECK(by_length_.erase({run.pages, run.first}) == 1);
  free_pages_ -= run.pages;
}

// Requires `taken` inside the free run `from`.
void ExtentAllocator::carve(const Run& from, const Run& taken) {
  remove(from);
  const std::uint64_t before = taken.first - from.first;
  const std::uint64_t after = from.pages - before - taken.pages;
  if (before != 0) add({.first = from.first, .pages = before});
  if (after != 0) add({.first = taken.first + taken.pages, .pages = after});
}

}  // namespace sluice::arena
