#include <algorithm>

#include <fmt/format.h>

#include "common/quantity.h"
#include "serving_show.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kUnknown = "-";

std::string count(double value) {
  return fmt::format("{:.0f}", value);
}

std::string size(double bytes) {
  return app::format_size(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, 9e18)));
}

// Three digits and a unit, so that columns stay narrow.
std::string seconds(double value) {
  if (value < 0.00995) return fmt::format("{:.1f}ms", value * 1e3);
  if (value < 0.9995) return fmt::format("{:.0f}ms", value * 1e3);
  if (value < 9.995) return fmt::format("{:.2f}s", value);
  return fmt::format("{:.0f}s", value);
}

std::string spread(const Spread& spread) {
  if (!spread.p50 || !spread.p99) return std::string(kUnknown);
  const auto shown = [&](double value) {
    return value < spread.finest ? "<" + seconds(spread.finest) : seconds(value);
  };
  return fmt::format("{} {}", shown(*spread.p50), shown(*spread.p99));
}

std::string rate(const Counter& counter) {
  return counter.per_s ? fmt::format("{:.1f}", *counter.per_s) : std::string(kUnknown);
}

std::string with_rate(std::string_view name, const Counter& counter) {
  return counter.per_s ? fmt::format("{} {} ({:.1f}/s)", name, count(counter.total), *counter.per_s)
                       : fmt::format("{} {}", name, count(counter.total));
}

std::string bytes(std::string_view name, const Counter& counter) {
  return counter.per_s ? fmt::format("{} {} ({})", name, size(counter.total),
                                     app::format_rate(*counter.per_s))
                       : fmt::format("{} {}", name, size(counter.total));
}

std::string causes(std::string_view name, const Causes& causes) {
  if (causes.empty()) return fmt::format("{} none", name);
  std::string out(name);
  for (const auto& [cause, number] : causes)
    out += fmt::format(" {} {}", printable(cause), count(number));
  return out;
}

void print_endpoint(const Output& out, const EndpointView& endpoint) {
  if (endpoint.address.empty()) return;
  const std::string title = fmt::format("proxy {}", printable(endpoint.address));
  if (!endpoint.trouble.empty()) {
    out.flow(out.paint(title, Tone::kBad), {printable(endpoint.trouble)});
    return;
  }
  out.flow(out.paint(title, endpoint.ready ? Tone::kGood : Tone::kBad),
           {endpoint.draining ? "draining"
            : endpoint.ready  ? "ready"
                              : "not ready",
            fmt::format("connections {}", count(endpoint.connections)),
            with_rate("requests", endpoint.requests),
            fmt::format("2xx {} 4xx {} 5xx {}", count(endpoint.answered_2xx),
                        count(endpoint.answered_4xx), count(endpoint.answered_5xx)),
            fmt::format("clients gone {}", count(endpoint.clients_gone)),
            fmt::format("streams broken {}", count(endpoint.streams_broken)),
            causes("refused", endpoint.refusals)});
  out.flow(
      out.paint("p50 p99", Tone::kStrong),
      {fmt::format("first token {}", spread(endpoint.first_token)),
       fmt::format("between tokens {}", spread(endpoint.between_tokens)),
       fmt::format("request {}", spread(endpoint.request)), with_rate("events", endpoint.events)});
}

std::string state_of(const ServerView& engine) {
  if (engine.healthy && *engine.healthy) return engine.answered ? "healthy" : "no answer";
  if (engine.healthy) return "out of use";
  return engine.trouble.empty() ? "up" : "away";
}

std::vector<std::string> row(const ServerView& server, std::string name, std::string state,
                             std::string retries, std::string preemptions) {
  return {std::move(name),
          std::move(state),
          count(server.running),
          count(server.waiting),
          rate(server.served),
          spread(server.service),
          spread(server.first_token),
          spread(server.between_tokens),
          spread(server.queue),
          count(server.errors),
          std::move(retries),
          std::move(preemptions),
          count(server.served.total)};
}

void print_stages(const Output& out, const ServingView& view) {
  if (view.stages.empty()) return;
  Output::Table table{
      .header = {"STAGE, ENGINE", "STATE", "RUN", "WAIT", "REQ/S", "SERVICE", "FIRST TOKEN",
                 "BETWEEN", "QUEUE", "ERRORS", "RETRIES", "PREEMPTED", "SERVED"},
      .rows = {},
      .right = {false, false, true, true, true, true, true, true, true, true, true, true, true},
      .dropped = {0, 0, 0, 0, 3, 1, 2, 4, 6, 5, 7, 8, 9}};
  for (const auto& [stage, engines] : view.stages) {
    table.rows.push_back(row(stage, stage.role,
                             stage.instances > 0
                                 ? fmt::format("{} of {} used", stage.usable, stage.instances)
                                 : std::string(kUnknown),
                             count(stage.retries), std::string(kUnknown)));
    for (const ServerView& engine : engines) {
      const std::string& name = engine.name.empty() ? engine.address : engine.name;
      if (engine.trouble.empty()) {
        table.rows.push_back(row(engine, "  " + printable(name), state_of(engine),
                                 std::string(kUnknown), count(engine.preemptions)));
      } else {
        std::vector<std::string> cells(table.header.size(), std::string(kUnknown));
        cells[0] = "  " + printable(name);
        cells[1] = state_of(engine);
        if (engine.healthy) cells[2] = count(engine.running);  // the proxy knows
        table.rows.push_back(std::move(cells));
      }
    }
  }
  out.line();
  out.table(table);
  out.line();
}

// Why cells are empty.
void print_troubles(const Output& out, const ServingView& view) {
  if (!view.endpoint.address.empty() && view.endpoint.trouble.empty() &&
      !view.endpoint.listing_trouble.empty()) {
    out.flow(out.paint("list of engines", Tone::kWarning),
             {printable(view.endpoint.listing_trouble)});
  }
  for (const StageView& stage : view.stages) {
    for (const ServerView& engine : stage.engines) {
      if (engine.trouble.empty()) continue;
      out.flow(
          out.paint(fmt::format("{} {}", stage.stage.role, printable(engine.address)), Tone::kBad),
          {printable(engine.trouble)});
    }
  }
}

void print_features(const Output& out, const FeaturesView& features) {
  std::vector<std::string> pieces = {
      with_rate("items", features.items),
      with_rate("encodes", features.encodes),
      fmt::format("skipped {}", count(features.skipped)),
      fmt::format("coalesced {}", count(features.coalesced)),
      with_rate("hits", features.hits),
      fmt::format("misses {}", count(features.misses)),
      fmt::format("encoded locally {}", count(features.local_encodes)),
      bytes("written", features.written_bytes),
      bytes("read", features.read_bytes),
      causes("fallbacks", features.fallbacks)};
  if (features.corrupt > 0)
    pieces.push_back(out.paint(fmt::format("corrupt {}", count(features.corrupt)), Tone::kBad));
  out.flow(out.paint("features", Tone::kStrong), pieces);
}

void print_handoffs(const Output& out, const HandoffsView& handoffs) {
  out.flow(out.paint("hand-offs", Tone::kStrong),
           {handoffs.open ? fmt::format("open {}", *handoffs.open) : "open -",
            fmt::format("in the arena {} parts, {}", handoffs.parts,
                        size(static_cast<double>(handoffs.parts_bytes))),
            with_rate("committed", handoffs.committed), bytes("sent", handoffs.sent_bytes),
            bytes("received", handoffs.received_bytes),
            fmt::format("failures: sending {}, receiving {}", count(handoffs.send_failures),
                        count(handoffs.receive_failures)),
            fmt::format("uncommitted {}", count(handoffs.uncommitted)),
            causes("fallbacks", handoffs.fallbacks)});
}

}  // namespace

void print(const Output& out, const ServingView& view) {
  print_endpoint(out, view.endpoint);
  print_stages(out, view);
  print_troubles(out, view);
  print_features(out, view.features);
  print_handoffs(out, view.handoffs);
}

}  // namespace sluice::cli
