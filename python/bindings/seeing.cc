#include "seeing.h"

#include <algorithm>

#include "convert.h"

namespace sluice::python {
namespace {

nb::dict to_dict(const ObjectInfo& object) {
  nb::dict out;
  out["key"] = to_str(object.key);
  out["object_bytes"] = object.object_bytes;
  out["extent_bytes"] = object.extent_bytes;
  out["created_ns"] = object.created_ns;
  out["checksums"] = object.checksums;
  out["hard_pinned"] = object.hard_pinned;
  out["soft_pinned_until_ns"] = object.soft_pinned_until_ns;
  out["presence"] = to_str(sluice::name(object.presence));
  return out;
}

nb::dict to_dict(const ClientInfo& client) {
  nb::dict out;
  out["id"] = client.id;
  out["pid"] = client.pid;
  out["alive"] = client.alive;
  out["label"] = to_str(client.label);
  out["leases"] = client.leases;
  out["reserved_bytes"] = client.reserved_bytes;
  out["lookups"] = client.lookups;
  out["hits"] = client.hits;
  out["gets"] = client.gets;
  out["get_bytes"] = client.get_bytes;
  out["puts"] = client.puts;
  out["put_bytes"] = client.put_bytes;
  out["corrupt"] = client.corrupt;
  out["board"] = to_str(client.board);
  return out;
}

nb::dict to_dict(const KindStats& kind) {
  nb::dict out;
  out["objects"] = kind.objects;
  out["object_bytes"] = kind.object_bytes;
  out["puts"] = kind.puts;
  out["duplicates"] = kind.duplicates;
  out["evictions"] = kind.evictions;
  out["removals"] = kind.removals;
  return out;
}

template <class Item>
nb::list each(const std::vector<Item>& items) {
  nb::list out;
  for (const Item& item : items) out.append(to_dict(item));
  return out;
}

}  // namespace

nb::list to_list(const std::vector<ObjectInfo>& objects) {
  return each(objects);
}
nb::list to_list(const std::vector<ClientInfo>& clients) {
  return each(clients);
}

nb::dict to_dict(const ArenaStats& stats) {
  nb::dict out;
  out["boot"] = stats.boot;
  out["epoch"] = stats.epoch;
  out["daemon_alive"] = stats.daemon_alive;
  out["daemon_pid"] = stats.daemon_pid;
  out["arena_bytes"] = stats.arena_bytes;
  out["used_bytes"] = stats.used_bytes;
  out["reserved_bytes"] = stats.reserved_bytes;
  out["objects"] = stats.objects;
  out["objects_max"] = stats.objects_max;
  out["clients"] = stats.clients;
  out["leases"] = stats.leases;
  out["published_total"] = stats.published_total;
  out["duplicates_total"] = stats.duplicates_total;
  out["divergent_duplicates_total"] = stats.divergent_duplicates_total;
  out["conflicts_total"] = stats.conflicts_total;
  out["evictions_total"] = stats.evictions_total;
  out["removals_total"] = stats.removals_total;
  out["expired_total"] = stats.expired_total;
  out["abandoned_total"] = stats.abandoned_total;
  out["out_of_space_total"] = stats.out_of_space_total;
  out["reclaimed_of_dead_total"] = stats.reclaimed_of_dead_total;
  out["refused_total"] = stats.refused_total;
  out["index_bytes"] = stats.index_bytes;
  out["record_bytes"] = stats.record_bytes;
  nb::dict kinds;
  const std::size_t known = static_cast<std::size_t>(ObjectKind::kKvPage) + 1;
  for (std::size_t kind = 0; kind < std::min(known, stats.kinds.size()); ++kind) {
    kinds[to_str(name(static_cast<ObjectKind>(kind)))] = to_dict(stats.kinds[kind]);
  }
  out["kinds"] = kinds;
  return out;
}

}  // namespace sluice::python
