// top.cc: `sluice top`: the arena, its processes and the serving path, refreshed; one view when
// piped.
#include <algorithm>
#include <cstdio>
#include <deque>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sluice/object_key.h>

#include "arena_view.h"
#include "attach.h"
#include "base/clock.h"
#include "commands.h"
#include "common/exit_code.h"
#include "interrupt.h"
#include "serving_show.h"
#include "topology.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

// Rates and quantiles are over so much time, so that a single request does not make them jump.
constexpr std::chrono::seconds kWindow{10};
// An arena that is away must not hold the view up.
constexpr std::chrono::milliseconds kAttachTimeoutMax{500};
constexpr std::chrono::milliseconds kLookTimeoutMin{1000};

struct Subject {
  Global global;
  ServingPlace serving;
};

Result<Subject> subject_of(const Global& global, const TopCommand& command) {
  Subject subject{.global = global, .serving = {}};
  subject.global.timeout = std::min(global.timeout, kAttachTimeoutMax);
  if (!command.file.empty()) {
    const auto text = app::read_config_file(command.file);
    if (!text) return std::unexpected(text.error());
    const auto topology = parse_topology(*text, command.file);
    if (!topology) return std::unexpected(topology.error());
    auto directory = arena_directory(*topology);
    if (!directory) return std::unexpected(directory.error());
    subject.global.arena = topology->arena_name;
    subject.global.directory = std::move(*directory);
    subject.serving = place_of(*topology);
  }
  if (!command.proxy.empty()) subject.serving.proxy = command.proxy;
  if (!command.token.empty()) {
    subject.serving.token = command.token;
    subject.serving.token_problem.clear();
  }
  return subject;
}

struct View {
  ArenaSample arena;
  ServingSample serving;
};

// The newest view, and the one that it is compared with.
class History {
 public:
  void add(View view) {
    const Instant from = view.arena.time;
    views_.push_back(std::move(view));
    while (views_.size() > 2 && deadline_after(views_[1].arena.time, kWindow) < from)
      views_.pop_front();
  }
  const View& newest() const { return views_.back(); }
  const View* before() const { return views_.size() < 2 ? nullptr : &views_.front(); }

 private:
  std::deque<View> views_;
};

void show(const Output& out, const Subject& subject, const History& history) {
  const View& view = history.newest();
  const View* before = history.before();
  ServingView serving =
      view_of(subject.serving, view.serving, before != nullptr ? &before->serving : nullptr);
  if (!view.arena.trouble) {
    const auto kind = static_cast<std::size_t>(ObjectKind::kKvHandoff);
    serving.handoffs.open = view.arena.open_handoffs;
    if (kind < view.arena.stats.kinds.size()) {
      serving.handoffs.parts = view.arena.stats.kinds[kind].objects;
      serving.handoffs.parts_bytes = view.arena.stats.kinds[kind].object_bytes;
    }
  }
  if (out.json()) {
    json row = {{"time_ns", view.arena.time}};
    add_json(view.arena, row);
    if (!subject.serving.empty()) row["serving"] = to_json(serving);
    out.row(row);
    return;
  }
  if (!subject.serving.empty()) {
    print(out, serving);
    out.line();
  }
  print(out, before != nullptr ? before->arena : view.arena, view.arena);
  std::fflush(stdout);
}

// Whether anything at all was there to be shown.
bool anything(const View& view) {
  const auto answered = [](const auto& engine) { return engine.second.has_value(); };
  return !view.arena.trouble || view.serving.proxy.has_value() ||
         std::ranges::any_of(view.serving.engines, answered);
}

}  // namespace

int run(const Global& global, const TopCommand& command) {
  const Output out(global.look);
  const Interrupt interrupt;
  const auto subject = subject_of(global, command);
  if (!subject) {
    out.error(subject.error());
    return app::kExitBadConfig;
  }
  const auto timeout = std::min(global.timeout, std::max(command.interval, kLookTimeoutMin));
  const bool live = out.terminal() && !out.json();
  const std::uint64_t count = command.count != 0 ? command.count : live ? 0 : 1;
  ArenaWatch arena(subject->global);
  History history;
  for (std::uint64_t shown = 0; count == 0 || shown < count; ++shown) {
    if (shown > 0 && interrupt.wait_until(deadline_after(now(), command.interval))) break;
    View view{.arena = arena.look(), .serving = {}};
    if (!subject->serving.empty()) view.serving = look(subject->serving, timeout);
    // With nothing else to watch, an arena that is not there is a mistake and not a sight.
    if (shown == 0 && subject->serving.empty() && view.arena.trouble) {
      out.error(*view.arena.trouble);
      return app::kExitError;
    }
    history.add(std::move(view));
    if (live) std::fputs("\x1b[H\x1b[2J", stdout);
    show(out, *subject, history);
    if (live) out.line(out.paint("\nctrl-c leaves", Tone::kFaint));
  }
  return anything(history.newest()) ? app::kExitOk : app::kExitError;
}

}  // namespace sluice::cli
