#include "proxy/live_ids.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace sluice::proxy {

std::string LiveIds::enter(std::string_view wanted) {
  const std::scoped_lock lock(mutex_);
  std::string name(wanted);
  for (std::uint64_t number = 2; !names_.insert(name).second; ++number) {
    name = fmt::format("{}-{}", wanted, number);
  }
  return name;
}

void LiveIds::leave(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  names_.erase(name);
}

bool is_request_id(std::string_view id) noexcept {
  constexpr std::size_t kBytesMax = 128;
  return !id.empty() && id.size() <= kBytesMax && std::ranges::all_of(id, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

}  // namespace sluice::proxy
