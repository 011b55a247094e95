#include "sluiced/exposition.h"

#include <map>

#include <sluice/version.h>

#include "metrics/families.h"

namespace sluice::daemon {
namespace {

using metrics::Families;
using metrics::Labels;

void add_arena(Families& out, const ArenaStats& stats) {
  out.gauge("sluice_arena_bytes", "Size of the arena.", static_cast<double>(stats.arena_bytes));
  out.gauge("sluice_arena_used_bytes",
            "Bytes of extents in use, published, reserved or waiting to be freed.",
            static_cast<double>(stats.used_bytes));
  out.gauge("sluice_arena_reserved_bytes", "Bytes granted to writers and not published yet.",
            static_cast<double>(stats.reserved_bytes));
  out.gauge("sluice_objects", "Published objects.", static_cast<double>(stats.objects));
  out.gauge("sluice_objects_max", "Objects that the index can hold.",
            static_cast<double>(stats.objects_max));
  out.gauge("sluice_clients", "Attached processes.", static_cast<double>(stats.clients));
  out.gauge("sluice_leases", "Views of objects that processes hold.",
            static_cast<double>(stats.leases));
  out.gauge("sluice_index_bytes", "Memory of the index.", static_cast<double>(stats.index_bytes));
  out.gauge("sluice_record_bytes", "Memory of object records.",
            static_cast<double>(stats.record_bytes));
  out.counter("sluice_published_total", "Objects published.", stats.published_total);
  out.counter("sluice_duplicates_total", "Puts of an object that was there already.",
              stats.duplicates_total);
  out.counter("sluice_divergent_duplicates_total",
              "Puts of a key that was there already with the same shape and other bytes; the first "
              "object stayed.",
              stats.divergent_duplicates_total);
  out.counter("sluice_conflicts_total", "Puts refused because another object has their key.",
              stats.conflicts_total);
  out.counter("sluice_evictions_total", "Objects evicted to make space.", stats.evictions_total);
  out.counter("sluice_removals_total", "Objects removed on request.", stats.removals_total);
  out.counter("sluice_expired_total", "Reservations whose deadline passed before publish.",
              stats.expired_total);
  out.counter("sluice_abandoned_total", "Reservations given up by their writer.",
              stats.abandoned_total);
  out.counter("sluice_out_of_space_total",
              "Grants refused because nothing could be evicted in time.", stats.out_of_space_total);
  out.counter("sluice_reclaimed_of_dead_total",
              "Reservations and leases cleared after their process died.",
              stats.reclaimed_of_dead_total);
  out.counter("sluice_refused_total", "Malformed or forbidden requests of clients.",
              stats.refused_total);
  out.counter("sluice_daemon_starts_total", "Daemons that served the contents of this arena.",
              stats.epoch);
}

void add_kinds(Families& out, const ArenaStats& stats) {
  for (std::size_t i = 0; i < stats.kinds.size(); ++i) {
    const KindStats& kind = stats.kinds[i];
    const Labels labels = {{"kind", std::string(name(static_cast<ObjectKind>(i)))}};
    out.gauge("sluice_kind_objects", "Published objects of a kind.",
              static_cast<double>(kind.objects), labels);
    out.gauge("sluice_kind_bytes", "Bytes of the published objects of a kind.",
              static_cast<double>(kind.object_bytes), labels);
    out.counter("sluice_kind_puts_total", "Objects of a kind published.", kind.puts, labels);
    out.counter("sluice_kind_duplicates_total",
                "Puts of an object of a kind that was there already.", kind.duplicates, labels);
    out.counter("sluice_kind_evictions_total", "Objects of a kind evicted.", kind.evictions,
                labels);
    out.counter("sluice_kind_removals_total", "Objects of a kind removed on request.",
                kind.removals, labels);
  }
}

// Gauges, not counters: what the processes attached now have done. A process that leaves takes its
// numbers with it.
void add_clients(Families& out, std::span<const ClientInfo> clients) {
  struct Sum {
    std::uint64_t processes = 0, leases = 0, reserved = 0, lookups = 0, hits = 0, gets = 0,
                  get_bytes = 0, puts = 0, put_bytes = 0, corrupt = 0;
  };
  std::map<std::string, Sum> by_label;
  for (const ClientInfo& client : clients) {
    if (!client.alive) continue;
    Sum& sum = by_label[client.label];
    ++sum.processes;
    sum.leases += client.leases;
    sum.reserved += client.reserved_bytes;
    sum.lookups += client.lookups;
    sum.hits += client.hits;
    sum.gets += client.gets;
    sum.get_bytes += client.get_bytes;
    sum.puts += client.puts;
    sum.put_bytes += client.put_bytes;
    sum.corrupt += client.corrupt;
  }
  for (const auto& entry : by_label) {
    const std::string& label = entry.first;
    const Sum& sum = entry.second;
    const auto add = [&](const char* metric, const char* help, std::uint64_t value) {
      out.gauge(metric, help, static_cast<double>(value), {{"client", label}});
    };
    add("sluice_client_processes", "Attached processes with this label.", sum.processes);
    add("sluice_client_leases", "Views that they hold.", sum.leases);
    add("sluice_client_reserved_bytes", "Bytes granted to them and not published yet.",
        sum.reserved);
    add("sluice_client_lookups", "Look-ups of the attached processes.", sum.lookups);
    add("sluice_client_hits", "Look-ups that found a published object.", sum.hits);
    add("sluice_client_gets", "Objects they read.", sum.gets);
    add("sluice_client_get_bytes", "Bytes of those objects.", sum.get_bytes);
    add("sluice_client_puts", "Objects they published.", sum.puts);
    add("sluice_client_put_bytes", "Bytes of those objects.", sum.put_bytes);
    add("sluice_client_corrupt", "Reads whose bytes did not match their checksum.", sum.corrupt);
  }
}

}  // namespace

std::string prometheus_text(const ArenaStats& stats, std::span<const ClientInfo> clients,
                            const ProcessSample& process) {
  Families out;
  out.gauge("sluice_build_info", "1, with the version as a label.", 1,
            {{"version", std::string(kVersion)}});
  out.gauge("sluice_ready", "1 while the daemon serves and takes new reservations.",
            process.ready ? 1 : 0);
  out.gauge("sluice_draining", "1 after the first SIGTERM.", process.draining ? 1 : 0);
  out.gauge("sluice_arena_touched_share", "Share of the arena that was written once in advance.",
            process.touched_share);
  out.gauge("sluice_loop_age_seconds", "Time since the store loop's last turn.",
            process.loop_age_seconds);
  out.counter("sluice_late_requests_total", "Requests that were first seen after their deadline.",
              process.late_requests_total);
  out.counter("sluice_http_requests_total", "Requests answered by the admin server.",
              process.http_requests_total);
  out.counter("sluice_http_refused_total", "Admin requests answered with 400 or above.",
              process.http_refused_total);
  out.counter("sluice_log_lines_lost_total", "Lines of the log that were not read in time.",
              process.log_lines_lost_total);
  add_arena(out, stats);
  add_kinds(out, stats);
  add_clients(out, clients);
  return out.text();
}

}  // namespace sluice::daemon
