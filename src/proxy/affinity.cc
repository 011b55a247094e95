#include "proxy/affinity.h"

#include <algorithm>

namespace sluice::proxy {

sched::Wish wish_near(const Director& director, std::size_t role, std::string_view arena) {
  sched::Wish wish;
  if (arena.empty()) return wish;
  std::vector<sched::InstanceId> near;
  for (const InstanceView& view : director.list()) {
    const InstanceSpec& spec = view.instance->spec;
    if (spec.role == role && spec.arena == arena) near.push_back(view.instance->id);
  }
  if (near.empty()) return wish;
  wish.saves_ns = [near = std::move(near)](sched::InstanceId id) -> std::uint64_t {
    return std::ranges::find(near, id) == near.end() ? 0 : kArenaSavesNs;
  };
  return wish;
}

}  // namespace sluice::proxy
