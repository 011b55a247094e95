#include "store/prefix_table.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/kill_point.h"

namespace sluice::store {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

// The text is shared with readers that may look at any time, so it moves in whole atomic words; the
// length is stored last and as zero first. Bytes behind the text are zero up to its last word.
std::uint64_t word_of(std::string_view text, std::size_t at) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, text.data() + at, std::min(kWordBytes, text.size() - at));
  return word;
}

const std::uint64_t* word_at(const PrefixEntry& entry, std::size_t at) noexcept {
  return reinterpret_cast<const std::uint64_t*>(entry.text + at);
}

std::uint32_t load_length(const PrefixEntry& entry) noexcept {
  return __atomic_load_n(&entry.length, __ATOMIC_ACQUIRE);
}

bool valid_length(std::size_t length) noexcept {
  return length >= 1 && length <= kPrefixTextMax;
}

void store_text(PrefixEntry& entry, std::string_view text) noexcept {
  __atomic_store_n(&entry.length, 0u, __ATOMIC_RELAXED);
  for (std::size_t at = 0; at < text.size(); at += kWordBytes) {
    // Release: whoever sees a new word and then the length sees that the old text is gone.
    __atomic_store_n(const_cast<std::uint64_t*>(word_at(entry, at)), word_of(text, at),
                     __ATOMIC_RELEASE);
    KILL_POINT("prefix.between_words");
  }
  __atomic_store_n(&entry.length, static_cast<std::uint32_t>(text.size()), __ATOMIC_RELEASE);
}

bool entry_is(const PrefixEntry& entry, std::string_view text) noexcept {
  if (load_length(entry) != text.size() || !valid_length(text.size())) return false;
  for (std::size_t at = 0; at < text.size(); at += kWordBytes) {
    if (__atomic_load_n(word_at(entry, at), __ATOMIC_RELAXED) != word_of(text, at)) return false;
  }
  return true;
}

}  // namespace

PrefixTable::PrefixTable(std::span<PrefixEntry> entries)
    : entries_(entries.first(std::min<std::size_t>(entries.size(), kPrefixesMax))),
      counts_(entries_.size()) {
  for (std::uint32_t number = 0; number < entries_.size(); ++number) {
    const auto found = text(number);
    if (!found.empty()) numbers_.emplace(found, number);
  }
}

std::optional<std::uint32_t> PrefixTable::intern(std::string_view wanted) {
  if (!valid_length(wanted.size())) return std::nullopt;
  std::string key(wanted);
  if (const auto found = numbers_.find(key); found != numbers_.end()) {
    if (counts_[found->second]++ == 0) ++in_use_;
    return found->second;
  }
  const auto number = unused_entry();
  if (!number) return std::nullopt;
  // Two entries may hold one text after a crash; only the one that the map knows is forgotten.
  const auto old = numbers_.find(std::string(text(*number)));
  if (old != numbers_.end() && old->second == *number) numbers_.erase(old);
  store_text(entries_[*number], wanted);
  numbers_.emplace(std::move(key), *number);
  counts_[*number] = 1;
  ++in_use_;
  return number;
}

bool PrefixTable::retain(std::uint32_t number) {
  if (number >= entries_.size() || text(number).empty()) return false;
  if (counts_[number]++ == 0) ++in_use_;
  return true;
}

void PrefixTable::release(std::uint32_t number) {
  CHECK(number < counts_.size() && counts_[number] != 0);
  if (--counts_[number] == 0) --in_use_;
}

std::string_view PrefixTable::text(std::uint32_t number) const noexcept {
  return prefix_text(entries_, number);
}

// Entries without a text come first; then, in turn, those that no slot counts on.
std::optional<std::uint32_t> PrefixTable::unused_entry() noexcept {
  const auto entries = static_cast<std::uint32_t>(entries_.size());
  if (in_use_ == entries) return std::nullopt;
  std::optional<std::uint32_t> reusable;
  for (std::uint32_t step = 0; step < entries; ++step) {
    const std::uint32_t number = (search_from_ + step) % entries;
    if (counts_[number] != 0) continue;
    if (text(number).empty()) return number;
    if (!reusable) reusable = number;
  }
  if (reusable) search_from_ = (*reusable + 1) % entries;
  return reusable;
}

bool prefix_is(std::span<const PrefixEntry> entries, std::uint32_t number,
               std::string_view text) noexcept {
  return number < entries.size() && entry_is(entries[number], text);
}

std::optional<std::uint32_t> find_prefix(std::span<const PrefixEntry> entries,
                                         std::string_view text) noexcept {
  for (std::uint32_t number = 0; number < entries.size(); ++number) {
    if (entry_is(entries[number], text)) return number;
  }
  return std::nullopt;
}

std::string_view prefix_text(std::span<const PrefixEntry> entries, std::uint32_t number) noexcept {
  if (number >= entries.size()) return {};
  const std::uint32_t length = load_length(entries[number]);
  if (!valid_length(length)) return {};
  return {entries[number].text, length};
}

}  // namespace sluice::store
