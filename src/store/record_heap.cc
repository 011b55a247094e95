#include "store/record_heap.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/checked.h"

namespace sluice::store {

RecordHeap::RecordHeap(std::uint32_t granules)
    : total_(granules), taken_(granules / 64 + (granules % 64 != 0)), nodes_(granules) {
  CHECK(granules < kNone);
  heads_.fill(kNone);
}

std::optional<std::uint32_t> RecordHeap::allocate(std::uint32_t granules) {
  CHECK(granules >= 1 && granules <= kRecordGranulesMax);
  if (lists_stale_) rebuild_lists();
  const std::uint32_t long_enough = nonempty_ >> (granules - 1);
  if (long_enough == 0) return std::nullopt;
  const auto list = granules - 1 + static_cast<std::uint32_t>(std::countr_zero(long_enough));
  const std::uint32_t first = heads_[list];
  const std::uint32_t length = nodes_[first].length;
  unlink(first);
  if (length > granules) link(first + granules, length - granules);
  mark(first, granules, true);
  return first;
}

bool RecordHeap::reserve(std::uint32_t first, std::uint32_t granules) {
  if (granules < 1 || granules > kRecordGranulesMax || !fits(first, granules, total_)) return false;
  if (!all(first, granules, false)) return false;
  mark(first, granules, true);
  lists_stale_ = true;
  return true;
}

void RecordHeap::free(std::uint32_t first, std::uint32_t granules) {
  CHECK(granules >= 1 && granules <= kRecordGranulesMax && fits(first, granules, total_));
  CHECK(all(first, granules, true));
  mark(first, granules, false);
  if (lists_stale_) return;  // the next allocate() finds it
  std::uint32_t begin = first;
  std::uint32_t length = granules;
  if (const std::uint32_t after = first + granules; after < total_ && !is_taken(after)) {
    length += nodes_[after].length;
    unlink(after);
  }
  if (first > 0 && !is_taken(first - 1)) {
    begin = first - nodes_[first - 1].length;
    length += nodes_[first - 1].length;
    unlink(begin);
  }
  link(begin, length);
}

// List i holds the runs of i + 1 granules, the last list all that are longer than any record.
std::uint32_t RecordHeap::list_of(std::uint32_t length) noexcept {
  return std::min(length, kLists) - 1;
}

bool RecordHeap::is_taken(std::uint32_t granule) const noexcept {
  return (taken_[granule / 64] >> granule % 64 & 1) != 0;
}

bool RecordHeap::all(std::uint32_t first, std::uint32_t granules, bool taken) const noexcept {
  for (std::uint32_t i = 0; i < granules; ++i) {
    if (is_taken(first + i) != taken) return false;
  }
  return true;
}

void RecordHeap::mark(std::uint32_t first, std::uint32_t granules, bool taken) noexcept {
  for (std::uint32_t i = first; i < first + granules; ++i) {
    taken_[i / 64] ^= std::uint64_t{1} << i % 64;
  }
  used_ = taken ? used_ + granules : used_ - granules;
}

void RecordHeap::link(std::uint32_t first, std::uint32_t length) noexcept {
  const std::uint32_t list = list_of(length);
  const std::uint32_t next = heads_[list];
  nodes_[first + length - 1].length = length;
  nodes_[first].length = length;
  nodes_[first].next = next;
  nodes_[first].prev = kNone;
  if (next != kNone) nodes_[next].prev = first;
  heads_[list] = first;
  nonempty_ |= 1u << list;
}

void RecordHeap::unlink(std::uint32_t first) noexcept {
  const Node& node = nodes_[first];
  const std::uint32_t list = list_of(node.length);
  if (node.next != kNone) nodes_[node.next].prev = node.prev;
  if (node.prev != kNone) {
    nodes_[node.prev].next = node.next;
  } else {
    heads_[list] = node.next;
    if (node.next == kNone) nonempty_ &= ~(1u << list);
  }
}

void RecordHeap::rebuild_lists() {
  heads_.fill(kNone);
  nonempty_ = 0;
  std::uint32_t run_from = 0;
  for (std::uint32_t i = 0; i < total_;) {
    const std::uint64_t word = taken_[i / 64] >> i % 64;
    if (word == 0) {  // no taken granule in what is left of this word
      i = std::min((i / 64 + 1) * 64, total_);
      continue;
    }
    const auto free_here = static_cast<std::uint32_t>(std::countr_zero(word));
    if (free_here > 0) {
      i += free_here;
      continue;
    }
    if (i > run_from) link(run_from, i - run_from);
    run_from = ++i;
  }
  if (total_ > run_from) link(run_from, total_ - run_from);
  lists_stale_ = false;
}

}  // namespace sluice::store
