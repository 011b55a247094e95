#include "proxy/media_names.h"

namespace sluice::proxy {
namespace {

// Zero bytes part the names: none of them can hold one.
std::string joined(std::string_view a, std::string_view b, std::string_view c = {}) {
  std::string out;
  out.reserve(a.size() + b.size() + c.size() + 2);
  for (const std::string_view part : {a, b, c}) {
    out += part;
    out += '\0';
  }
  return out;
}

}  // namespace

bool AliasTable::bind(std::string_view tenant, std::string_view uuid, std::string_view digest) {
  const std::scoped_lock lock(mutex_);
  std::string key = joined(tenant, uuid);
  if (const std::string* known = known_.find(key)) return *known == digest;
  known_.put(std::move(key), std::string(digest));
  return true;
}

std::optional<LearnedItem> LearnedItems::find(std::string_view uuid, std::string_view arguments,
                                              std::string_view model) {
  const std::scoped_lock lock(mutex_);
  const LearnedItem* known = known_.find(joined(uuid, arguments, model));
  if (known == nullptr) return std::nullopt;
  return *known;
}

void LearnedItems::learn(std::string_view uuid, std::string_view arguments, std::string_view model,
                         LearnedItem item) {
  const std::scoped_lock lock(mutex_);
  known_.put(joined(uuid, arguments, model), std::move(item));
}

}  // namespace sluice::proxy
