// lru_map.h: a map that forgets what was not used for longest.
//
// Invariant: never more than `limit` entries. One owner. The pointer of find() is valid until the
//            next
// put().
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sluice::proxy {

template <class Value>
class LruMap {
 public:
  explicit LruMap(std::size_t limit) : limit_(limit) {}

  Value* find(std::string_view key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }

  void put(std::string key, Value value) {
    if (limit_ == 0) return;
    if (Value* known = find(key)) {
      *known = std::move(value);
      return;
    }
    if (entries_.size() == limit_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(std::move(key), std::move(value));
    index_.emplace(entries_.front().first, entries_.begin());
  }

  void erase(std::string_view key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return;
    const auto entry = found->second;
    index_.erase(found);  // its key points into the entry
    entries_.erase(entry);
  }

  std::size_t size() const noexcept { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<std::string, Value>>;
  std::size_t limit_;
  Entries entries_;                                                         // used last in front
  std::unordered_map<std::string_view, typename Entries::iterator> index_;  // keys of entries_
};

}  // namespace sluice::proxy
