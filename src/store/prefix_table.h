// prefix_table.h: the text before "@id:" of every key in use, once each; slots name it by number.
//
// Invariant: an entry's text changes only while no slot counts on it. A slot under a lease is not
//            free, so whoever holds a lease may rely on the text of that slot's prefix. Without a
//            lease the text may change at any time: prefix_is() is then a hint, and so is a number
//            that was found earlier for a text; compare the text again once the lease stands.
// Threads:   PrefixTable: the daemon's store loop. The free functions: any process, any thread.
// Failure:   intern() answers nothing for an empty or too long text and when all entries are in
//            use. Readers treat a number or a length out of range as no text.
// Limits:    kPrefixesMax entries of kPrefixTextMax bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/limits.h"

namespace sluice::store {

inline constexpr std::size_t kPrefixTextMax = kKeyBytesMax;

// All zero is an unused entry.
struct PrefixEntry {
  std::uint32_t length = 0;
  std::uint32_t reserved = 0;
  alignas(8) char text[kPrefixTextMax] = {};
};
static_assert(sizeof(PrefixEntry) == 1032 && alignof(PrefixEntry) == 8);
static_assert(offsetof(PrefixEntry, length) == 0 && offsetof(PrefixEntry, text) == 8);
static_assert(std::is_trivially_copyable_v<PrefixEntry>);

class PrefixTable {
 public:
  // The entries outlive the table and may hold the texts of an earlier daemon. At most kPrefixesMax
  // of them are used.
  explicit PrefixTable(std::span<PrefixEntry> entries);

  // The number of this text, one more slot using it.
  std::optional<std::uint32_t> intern(std::string_view text);
  // One more slot found to use `number` at restart; false when the entry holds no valid text.
  bool retain(std::uint32_t number);
  // One slot fewer. The text stays, and is found again, until its entry is needed for another.
  void release(std::uint32_t number);

  std::uint32_t in_use() const noexcept { return in_use_; }
  std::string_view text(std::uint32_t number) const noexcept;

 private:
  std::optional<std::uint32_t> unused_entry() noexcept;

  std::span<PrefixEntry> entries_;
  std::vector<std::uint32_t> counts_;  // slots per entry
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::uint32_t in_use_ = 0;
  std::uint32_t search_from_ = 0;
};

// True when entry `number` holds exactly `text`. Reads shared memory word by word; never faults on
// garbage.
bool prefix_is(std::span<const PrefixEntry> entries, std::uint32_t number,
               std::string_view text) noexcept;

// The first entry that holds `text`: a hint, see above. O(entries) short compares.
std::optional<std::uint32_t> find_prefix(std::span<const PrefixEntry> entries,
                                         std::string_view text) noexcept;

// A view of the shared text, for those who hold a lease on a slot that names it; empty for garbage.
std::string_view prefix_text(std::span<const PrefixEntry> entries, std::uint32_t number) noexcept;

}  // namespace sluice::store
