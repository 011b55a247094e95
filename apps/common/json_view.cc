#include "common/json_view.h"

#include <nlohmann/json.hpp>

#include <sluice/object_key.h>

namespace sluice::app {

using json = nlohmann::ordered_json;

json to_json(const ArenaStats& stats) {
  json kinds = json::object();
  for (std::size_t i = 0; i < stats.kinds.size(); ++i) {
    const KindStats& kind = stats.kinds[i];
    kinds[std::string(sluice::name(static_cast<ObjectKind>(i)))] = {
        {"objects", kind.objects},     {"object_bytes", kind.object_bytes},
        {"puts", kind.puts},           {"duplicates", kind.duplicates},
        {"evictions", kind.evictions}, {"removals", kind.removals}};
  }
  return {{"boot", stats.boot},
          {"epoch", stats.epoch},
          {"daemon_alive", stats.daemon_alive},
          {"daemon_pid", stats.daemon_pid},
          {"arena_bytes", stats.arena_bytes},
          {"used_bytes", stats.used_bytes},
          {"reserved_bytes", stats.reserved_bytes},
          {"objects", stats.objects},
          {"objects_max", stats.objects_max},
          {"clients", stats.clients},
          {"leases", stats.leases},
          {"published_total", stats.published_total},
          {"duplicates_total", stats.duplicates_total},
          {"divergent_duplicates_total", stats.divergent_duplicates_total},
          {"conflicts_total", stats.conflicts_total},
          {"evictions_total", stats.evictions_total},
          {"removals_total", stats.removals_total},
          {"expired_total", stats.expired_total},
          {"abandoned_total", stats.abandoned_total},
          {"out_of_space_total", stats.out_of_space_total},
          {"reclaimed_of_dead_total", stats.reclaimed_of_dead_total},
          {"refused_total", stats.refused_total},
          {"index_bytes", stats.index_bytes},
          {"record_bytes", stats.record_bytes},
          {"kinds", std::move(kinds)}};
}

json to_json(const ClientInfo& client) {
  return {{"id", client.id},           {"pid", client.pid},
          {"alive", client.alive},     {"label", client.label},
          {"leases", client.leases},   {"reserved_bytes", client.reserved_bytes},
          {"lookups", client.lookups}, {"hits", client.hits},
          {"gets", client.gets},       {"get_bytes", client.get_bytes},
          {"puts", client.puts},       {"put_bytes", client.put_bytes},
          {"corrupt", client.corrupt}, {"board", client.board}};
}

json to_json(const ObjectInfo& object) {
  return {{"key", object.key},
          {"presence", sluice::name(object.presence)},
          {"object_bytes", object.object_bytes},
          {"extent_bytes", object.extent_bytes},
          {"created_ns", object.created_ns},
          {"checksums", object.checksums},
          {"hard_pinned", object.hard_pinned},
          {"soft_pinned_until_ns", object.soft_pinned_until_ns}};
}

json to_json(const TensorView& tensor) {
  return {{"name", tensor.name},
          {"dtype", sluice::name(tensor.spec.dtype)},
          {"shape", tensor.spec.shape},
          {"data_bytes", tensor.data_bytes},
          {"data_offset", tensor.data_offset}};
}

json to_json(const Attributes& attributes) {
  json out = json::object();
  for (const Attribute& attribute : attributes) {
    std::visit([&](const auto& value) { out[attribute.name] = value; }, attribute.value);
  }
  return out;
}

json to_json(const Error& error) {
  return {{"error", sluice::name(error.code)}, {"message", error.message}};
}

std::string dump(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice::app
