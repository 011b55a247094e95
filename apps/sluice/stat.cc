// stat.cc: `sluice stat [KEY]`: one object in full, or the arena's numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "base/clock.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "common/quantity.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

void field(const Output& out, std::string_view name, std::string_view value) {
  out.line(fmt::format("{} {}", out.paint(fmt::format("{:<16}", name), Tone::kStrong),
                       printable(value)));
}

int stat_object(const Output& out, const Client& client, const std::string& key_text) {
  const auto key = read_key(key_text);
  if (!key) {
    out.error(key.error());
    return app::kExitUsage;
  }
  const auto lease = client.acquire(*key);
  if (!lease) {
    out.error(explain_missing(client, key_text, lease.error()));
    return app::kExitError;
  }
  const auto checked = lease->verify(Verify::kAlways);
  const auto tensors = lease->tensors();
  const auto attributes = lease->attributes();
  const std::string state = !lease->has_checksums() ? "no checksums"
                            : checked               ? "verified"
                                                    : "corrupt";
  if (out.json()) {
    json value = {{"key", key->text()},
                  {"object_bytes", lease->bytes().size()},
                  {"checksums", lease->has_checksums()},
                  {"state", state},
                  {"tensors", json::array()},
                  {"attributes", json::object()}};
    for (const ObjectInfo& info : client.list(key->text())) {
      if (info.key == key->text()) value["object"] = app::to_json(info);
    }
    if (tensors) {
      for (const TensorView& tensor : *tensors) value["tensors"].push_back(app::to_json(tensor));
    }
    if (attributes) value["attributes"] = app::to_json(*attributes);
    out.value(value);
  } else {
    field(out, "key", key->text());
    field(out, "size",
          fmt::format("{} ({} bytes)", app::format_size(lease->bytes().size()),
                      lease->bytes().size()));
    field(out, "state", state);
    if (tensors) {
      for (const TensorView& tensor : *tensors) {
        field(out, "tensor",
              fmt::format("{}: {} [{}], {}", tensor.name, name(tensor.spec.dtype),
                          fmt::join(tensor.spec.shape, ", "), app::format_size(tensor.data_bytes)));
      }
    }
    if (attributes && !attributes->empty()) {
      const json values = app::to_json(*attributes);
      for (const auto& [name, value] : values.items())
        field(out, "attribute", name + " = " + app::dump(value));
    }
  }
  for (const Error* error :
       {checked ? nullptr : &checked.error(), tensors ? nullptr : &tensors.error()}) {
    if (error == nullptr) continue;
    out.error(*error);
    return app::kExitError;
  }
  return app::kExitOk;
}

int stat_arena(const Output& out, const Client& client) {
  const ArenaStats stats = client.stats();
  if (out.json()) {
    json processes = json::array();
    for (const ClientInfo& info : client.clients()) processes.push_back(app::to_json(info));
    out.value({{"arena", app::to_json(stats)}, {"processes", std::move(processes)}});
    return app::kExitOk;
  }
  const double share = stats.arena_bytes == 0 ? 0
                                              : 100.0 * static_cast<double>(stats.used_bytes) /
                                                    static_cast<double>(stats.arena_bytes);
  field(out, "daemon",
        stats.daemon_alive ? fmt::format("running, process {}, start {} of these contents",
                                         stats.daemon_pid, stats.epoch)
                           : "not running");
  field(out, "arena",
        fmt::format("{} of {} used ({:.1f}%), {} reserved", app::format_size(stats.used_bytes),
                    app::format_size(stats.arena_bytes), share,
                    app::format_size(stats.reserved_bytes)));
  field(out, "objects", fmt::format("{} of at most {}", stats.objects, stats.objects_max));
  field(out, "processes", fmt::format("{} attached, {} leases", stats.clients, stats.leases));
  field(
      out, "published",
      fmt::format("{} ({} duplicates, {} divergent, {} conflicts)", stats.published_total,
                  stats.duplicates_total, stats.divergent_duplicates_total, stats.conflicts_total));
  field(out, "left",
        fmt::format("{} evicted, {} removed, {} expired, {} abandoned, {} of dead processes",
                    stats.evictions_total, stats.removals_total, stats.expired_total,
                    stats.abandoned_total, stats.reclaimed_of_dead_total));
  field(out, "refused",
        fmt::format("{} out of space, {} malformed or forbidden", stats.out_of_space_total,
                    stats.refused_total));
  return app::kExitOk;
}

}  // namespace

int run(const Global& global, const StatCommand& command) {
  const Output out(global.look);
  const auto client = attach(global);
  if (!client) {
    out.error(client.error());
    return app::kExitError;
  }
  return command.key.empty() ? stat_arena(out, **client) : stat_object(out, **client, command.key);
}

}  // namespace sluice::cli
