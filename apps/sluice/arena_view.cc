#include "arena_view.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "common/json_view.h"
#include "common/quantity.h"
#include "serving_view.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t kObjectsLookedThroughMax = 20'000;  // at each look, for open hand-offs

// Counters per second between two looks; a counter that went back belongs to another process.
double rate(std::uint64_t before, std::uint64_t after, double seconds) {
  return after >= before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(std::min(full, width), '#') + std::string(width - std::min(full, width), '.');
}

void print_arena(const Output& out, const ArenaSample& before, const ArenaSample& sample,
                 double seconds) {
  const ArenaStats& stats = sample.stats;
  const double share = stats.arena_bytes == 0 ? 0
                                              : static_cast<double>(stats.used_bytes) /
                                                    static_cast<double>(stats.arena_bytes);
  out.flow(
      stats.daemon_alive ? out.paint(fmt::format("sluiced {}", stats.daemon_pid), Tone::kGood)
                         : out.paint("no daemon", Tone::kBad),
      {fmt::format("[{}] {:.1f}%", bar(share, 24), share * 100),
       fmt::format("{} of {}, {} reserved", app::format_size(stats.used_bytes),
                   app::format_size(stats.arena_bytes), app::format_size(stats.reserved_bytes))});
  out.flow(fmt::format("{} objects of {}", stats.objects, stats.objects_max),
           {fmt::format("{} leases", stats.leases),
            fmt::format("published {} ({:.1f}/s)", stats.published_total,
                        rate(before.stats.published_total, stats.published_total, seconds)),
            fmt::format("duplicates {}", stats.duplicates_total),
            fmt::format("evicted {} ({:.1f}/s)", stats.evictions_total,
                        rate(before.stats.evictions_total, stats.evictions_total, seconds)),
            fmt::format("out of space {}", stats.out_of_space_total)});
}

void print_processes(const Output& out, const ArenaSample& before, const ArenaSample& sample,
                     double seconds) {
  std::map<std::uint32_t, const ClientInfo*> known;
  for (const ClientInfo& info : before.clients) known[info.id] = &info;
  Output::Table table{.header = {"PID", "LEASES", "RESERVED", "LOOKUPS", "HITS", "GETS",
                                 "GET BYTES", "GET RATE", "PUTS", "PUT BYTES", "PUT RATE", "LABEL"},
                      .rows = {},
                      .right = std::vector<bool>(11, true),
                      .dropped = {0, 0, 3, 9, 8, 6, 4, 1, 7, 5, 2, 0}};
  for (const ClientInfo& info : sample.clients) {
    const auto found = known.find(info.id);
    const ClientInfo* old =
        found != known.end() && found->second->pid == info.pid ? found->second : &info;
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

}  // namespace

ArenaSample ArenaWatch::look() {
  ArenaSample sample;
  // What a dead daemon left can still be read; a new one is looked for meanwhile.
  if (client_ == nullptr || !client_->stats().daemon_alive) {
    auto client = attach(global_);
    if (client) {
      client_ = std::move(*client);
    } else if (client_ == nullptr) {
      sample.trouble = std::move(client.error());
    }
  }
  sample.time = now();
  if (client_ == nullptr) return sample;
  sample.stats = client_->stats();
  sample.clients = client_->clients();
  if (sample.stats.objects <= kObjectsLookedThroughMax)
    sample.open_handoffs = open_handoffs(client_->list("", kObjectsLookedThroughMax));
  return sample;
}

void print(const Output& out, const ArenaSample& before, const ArenaSample& sample) {
  if (sample.trouble) {
    out.flow(out.paint("no arena", Tone::kBad), {printable(sample.trouble->message)});
    return;
  }
  // With another daemon's numbers in between there is nothing to compare.
  const bool comparable = !before.trouble && before.stats.boot == sample.stats.boot;
  const double seconds = comparable ? static_cast<double>(sample.time - before.time) / 1e9 : 0;
  print_arena(out, before, sample, seconds);
  out.line();
  print_processes(out, before, sample, seconds);
}

void add_json(const ArenaSample& sample, json& to) {
  if (sample.trouble) {
    to["arena"] = nullptr;
    to["arena_trouble"] = sample.trouble->message;
    to["processes"] = json::array();
    return;
  }
  json processes = json::array();
  for (const ClientInfo& info : sample.clients) processes.push_back(app::to_json(info));
  to["arena"] = app::to_json(sample.stats);
  to["processes"] = std::move(processes);
}

}  // namespace sluice::cli
