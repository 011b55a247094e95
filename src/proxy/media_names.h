// media_names.h: what the proxy remembers about media between requests: which content a caller's
// uuid stands for, and which identifier an encoder gave to an item.
//
// Invariant: a caller's uuid is bound to the first content seen under it, inside its tenant; it
//            never reaches an engine. An identifier is remembered for (uuid, arguments, model),
//            since processor arguments change it. Both forget what was not used for longest; a
//            forgotten name costs an encode, never a wrong answer.
// Threads:   any: one mutex each, held for one look-up (shared by all workers, so that a repeat
//            that arrives on another thread skips its encode as well).
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/lru_map.h"

namespace sluice::proxy {

class AliasTable {
 public:
  explicit AliasTable(std::size_t limit) : known_(limit) {}
  // False when this uuid stands for other content already.
  bool bind(std::string_view tenant, std::string_view uuid, std::string_view digest);

 private:
  std::mutex mutex_;
  LruMap<std::string> known_;
};

struct LearnedItem {
  std::string identifier;
  std::string metadata;  // JSON, as the encoder gave it
};

class LearnedItems {
 public:
  explicit LearnedItems(std::size_t limit) : known_(limit) {}
  std::optional<LearnedItem> find(std::string_view uuid, std::string_view arguments,
                                  std::string_view model);
  void learn(std::string_view uuid, std::string_view arguments, std::string_view model,
             LearnedItem item);

 private:
  std::mutex mutex_;
  LruMap<LearnedItem> known_;
};

}  // namespace sluice::proxy
