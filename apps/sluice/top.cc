// top.cc: `sluice top`: the arena and its processes, refreshed; one snapshot when piped.
#include <cmath>
#include <cstdio>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "base/clock.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "common/quantity.h"
#include "interrupt.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

struct Snapshot {
  Instant time = 0;
  ArenaStats stats;
  std::vector<ClientInfo> clients;
};

Snapshot take(const Client& client) {
  return {now(), client.stats(), client.clients()};
}

// Counters per second between two snapshots; a counter that went back belongs to another process.
double rate(std::uint64_t before, std::uint64_t after, double seconds) {
  return after >= before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(std::min(full, width), '#') + std::string(width - std::min(full, width), '.');
}

void print_arena(const Output& out, const Snapshot& last, const Snapshot& snapshot,
                 double seconds) {
  const ArenaStats& stats = snapshot.stats;
  const double share = stats.arena_bytes == 0 ? 0
                                              : static_cast<double>(stats.used_bytes) /
                                                    static_cast<double>(stats.arena_bytes);
  out.line(fmt::format(
      "{}  [{}] {:.1f}%  {} of {}, {} reserved",
      stats.daemon_alive ? out.paint(fmt::format("sluiced {}", stats.daemon_pid), Tone::kGood)
                         : out.paint("no daemon", Tone::kBad),
      bar(share, 24), share * 100, app::format_size(stats.used_bytes),
      app::format_size(stats.arena_bytes), app::format_size(stats.reserved_bytes)));
  out.line(fmt::format(
      "{} objects of {}   {} leases   published {} ({:.1f}/s)   duplicates {}   evicted {} "
      "({:.1f}/s)   out of space {}",
      stats.objects, stats.objects_max, stats.leases, stats.published_total,
      rate(last.stats.published_total, stats.published_total, seconds), stats.duplicates_total,
      stats.evictions_total, rate(last.stats.evictions_total, stats.evictions_total, seconds),
      stats.out_of_space_total));
}

void print_processes(const Output& out, const Snapshot& last, const Snapshot& snapshot,
                     double seconds) {
  std::map<std::uint32_t, const ClientInfo*> before;
  for (const ClientInfo& info : last.clients) before[info.id] = &info;
  Output::Table table{.header = {"PID", "LEASES", "RESERVED", "LOOKUPS", "HITS", "GETS",
                                 "GET BYTES", "GET RATE", "PUTS", "PUT BYTES", "PUT RATE", "LABEL"},
                      .rows = {},
                      .right = std::vector<bool>(11, true)};
  for (const ClientInfo& info : snapshot.clients) {
    const auto known = before.find(info.id);
    const ClientInfo* old =
        known != before.end() && known->second->pid == info.pid ? known->second : &info;
    table.rows.push_back(
        {fmt::format("{}", info.pid), fmt::format("{}", info.leases),
         app::format_size(info.reserved_bytes), fmt::format("{}", info.lookups),
         fmt::format("{}", info.hits), fmt::format("{}", info.gets),
         app::format_size(info.get_bytes),
         app::format_rate(rate(old->get_bytes, info.get_bytes, seconds)),
         fmt::format("{}", info.puts), app::format_size(info.put_bytes),
         app::format_rate(rate(old->put_bytes, info.put_bytes, seconds)),
         printable(info.label) + (info.alive ? "" : " (dead)") +
             (info.corrupt > 0 ? fmt::format(" ({} corrupt)", info.corrupt) : "")});
  }
  out.table(table);
}

void show(const Output& out, const Snapshot& last, const Snapshot& snapshot) {
  const double seconds = static_cast<double>(snapshot.time - last.time) / 1e9;
  if (out.json()) {
    json processes = json::array();
    for (const ClientInfo& info : snapshot.clients) processes.push_back(app::to_json(info));
    out.row({{"time_ns", snapshot.time},
             {"arena", app::to_json(snapshot.stats)},
             {"processes", std::move(processes)}});
    return;
  }
  print_arena(out, last, snapshot, seconds);
  out.line();
  print_processes(out, last, snapshot, seconds);
  std::fflush(stdout);
}

}  // namespace

int run(const Global& global, const TopCommand& command) {
  const Output out(global.look);
  const Interrupt interrupt;
  const auto client = attach(global);
  if (!client) {
    out.error(client.error());
    return app::kExitError;
  }
  const bool live = out.terminal() && !out.json();
  const std::uint64_t count = command.count != 0 ? command.count : live ? 0 : 1;
  Snapshot last = take(**client);
  for (std::uint64_t shown = 0; count == 0 || shown < count; ++shown) {
    if (shown > 0 && interrupt.wait_until(deadline_after(now(), command.interval))) break;
    Snapshot snapshot = take(**client);
    if (live) std::fputs("\x1b[H\x1b[2J", stdout);
    show(out, last, snapshot);
    if (live) out.line(out.paint("\nctrl-c leaves", Tone::kFaint));
    last = std::move(snapshot);
  }
  return app::kExitOk;
}

}  // namespace sluice::cli
