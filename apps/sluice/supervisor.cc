#include "supervisor.h"

#include <algorithm>

#include <fmt/format.h>
#include <poll.h>
#include <string.h>

#include "common/exit_code.h"
#include "common/quantity.h"

namespace sluice::cli {
namespace {

constexpr std::chrono::milliseconds kTick{250};
// Engines make their files while they come up, and few later.
constexpr std::chrono::milliseconds kNoteWhileStarting{1'000};
constexpr std::chrono::milliseconds kNoteWhileServing{10'000};
constexpr std::chrono::milliseconds kLastWords{
    500};  // for output that is still in the pipe of an ended child

}  // namespace

Supervisor::Supervisor(std::vector<Stage> stages, SupervisorOptions options, Progress& progress,
                       const Interrupt& interrupt)
    : stages_(std::move(stages)),
      options_(std::move(options)),
      progress_(progress),
      interrupt_(interrupt) {}

Supervisor::~Supervisor() {
  for (Running& running : running_) running.child.kill();
}

int Supervisor::run() {
  if (bring_up()) exit_code_ = serve();
  stop_all();
  return exit_code_;
}

bool Supervisor::start_stage(const Stage& stage) {
  auto child = Child::start(stage.spec);
  if (!child) {
    progress_.event(stage.spec.name, "failed", child.error().message, Tone::kBad);
    exit_code_ = app::kExitError;
    return false;
  }
  progress_.event(stage.spec.name, "started",
                  fmt::format("started, process {}, log {}", child->pid(), stage.spec.log_path));
  running_.push_back(
      {.stage = &stage, .child = std::move(*child), .started = now(), .ready = false});
  return true;
}

bool Supervisor::bring_up() {
  for (const bool first : {true, false}) {
    const std::size_t from = running_.size();
    for (const Stage& stage : stages_) {
      if (stage.first == first && !start_stage(stage)) return false;
    }
    if (!await_ready(from)) return false;
  }
  if (options_.on_ready) {
    if (const auto told = options_.on_ready(); !told) {
      progress_.event("sluice", "failed", told.error().message, Tone::kBad);
      exit_code_ = app::kExitError;
      return false;
    }
  }
  return true;
}

bool Supervisor::await_ready(std::size_t from) {
  const Instant deadline = deadline_after(now(), options_.ready_timeout);
  while (true) {
    std::vector<StageState> states;
    bool all = true;
    for (std::size_t i = from; i < running_.size(); ++i) {
      Running& running = running_[i];
      if (!running.ready && !running.child.ending() && running.stage->ready(running.child)) {
        running.ready = true;
        running.child.note_shared_files();
        running.noted = now();
        progress_.event(
            running.child.name(), "ready",
            fmt::format("ready after {}",
                        app::format_duration(std::chrono::nanoseconds(now() - running.started))),
            Tone::kGood);
      }
      all = all && running.ready;
      states.push_back({running.child.name(), running.ready, running.started});
    }
    if (all) return true;
    progress_.tick(states, now());
    note_shared_files(now());
    switch (wait(std::min(deadline, deadline_after(now(), kTick)))) {
      case Wake::kSignal:
        return false;
      case Wake::kEnded:
        report_ending(*ended());
        return false;
      case Wake::kTick:
        break;
    }
    if (now() < deadline) continue;
    for (std::size_t i = from; i < running_.size(); ++i) {
      if (!running_[i].ready) {
        report(running_[i], fmt::format("not ready after {}: it does not answer {}",
                                        app::format_duration(options_.ready_timeout),
                                        running_[i].stage->awaited));
      }
    }
    exit_code_ = app::kExitError;
    return false;
  }
}

int Supervisor::serve() {
  while (true) {
    switch (wait(deadline_after(now(), kNoteWhileServing))) {
      case Wake::kSignal:
        return app::kExitOk;
      case Wake::kEnded:
        report_ending(*ended());
        return exit_code_;
      case Wake::kTick:
        note_shared_files(now());
        break;
    }
  }
}

// Sleeps until the deadline, a signal, or the end of a child; moves output meanwhile.
Supervisor::Wake Supervisor::wait(Instant deadline) {
  while (true) {
    std::vector<pollfd> fds = {{interrupt_.fd(), POLLIN, 0}};
    for (const Running& running : running_) {
      if (running.child.output_fd() >= 0) fds.push_back({running.child.output_fd(), POLLIN, 0});
      if (!running.child.ending()) fds.push_back({running.child.pid_fd(), POLLIN, 0});
    }
    const Instant time = now();
    const auto left_ms =
        deadline <= time ? 0 : std::min<std::uint64_t>((deadline - time) / kNsPerMs + 1, 60'000);
    const int woken = ::poll(fds.data(), fds.size(), static_cast<int>(left_ms));
    pump();
    if (const int number = interrupt_.take(); number != 0) {
      ++signals_;
      progress_.event("sluice", "signal",
                      fmt::format("{}: {}", ::sigdescr_np(number),
                                  signals_ == 1 ? "stopping everything" : "killing what is left"));
      return Wake::kSignal;
    }
    bool any_ended = false;
    for (Running& running : running_) {
      if (!running.child.ending() && running.child.reap()) any_ended = true;
    }
    if (any_ended) return Wake::kEnded;
    if (woken == 0 && now() >= deadline) return Wake::kTick;
  }
}

// A process that is killed takes the names of its files with it.
void Supervisor::note_shared_files(Instant time) {
  for (Running& running : running_) {
    const auto interval = running.ready ? kNoteWhileServing : kNoteWhileStarting;
    if (running.child.ending() || time < deadline_after(running.noted, interval)) continue;
    running.child.note_shared_files();
    running.noted = time;
  }
}

void Supervisor::pump() {
  for (Running& running : running_) {
    running.child.pump([&](std::string_view line) {
      if (options_.show_logs) progress_.log_line(running.child.name(), line);
    });
  }
}

Supervisor::Running* Supervisor::ended() {
  const auto found = std::ranges::find_if(
      running_, [](const Running& running) { return running.child.ending().has_value(); });
  return found == running_.end() ? nullptr : &*found;
}

void Supervisor::report_ending(const Running& running) {
  // Its last words may still be on their way through the pipe.
  const Instant deadline = deadline_after(now(), kLastWords);
  while (running.child.output_fd() >= 0 && now() < deadline) {
    pollfd more{running.child.output_fd(), POLLIN, 0};
    if (::poll(&more, 1, 50) == 0) break;
    pump();
  }
  const Ending ending = running.child.ending().value_or(Ending{});
  report(running, fmt::format("ended {} with {}",
                              running.ready ? "while it was needed," : "before it was ready,",
                              describe(ending)));
  // sluiced's own word (busy, bad configuration) is the best one there is.
  const bool telling = running.stage->first && (ending.exit_code == app::kExitBusy ||
                                                ending.exit_code == app::kExitBadConfig);
  exit_code_ = telling ? ending.exit_code : app::kExitError;
}

void Supervisor::report(const Running& running, std::string_view why) {
  progress_.event(running.child.name(), "failed", why, Tone::kBad);
  for (const std::string& line : running.child.last_lines())
    progress_.log_line(running.child.name(), line);
  progress_.event(running.child.name(), "log",
                  fmt::format("whole log: {}", running.child.log_path()));
}

void Supervisor::stop_all() {
  std::size_t others = 0;
  while (others < running_.size() && running_[others].stage->first) ++others;
  stop_group(others);
  stop_group(0);
  progress_.clear();
}

// Stops running_[from...], the last started first; all are asked before any is waited for.
void Supervisor::stop_group(std::size_t from) {
  for (std::size_t i = running_.size(); i > from; --i) {
    Running& running = running_[i - 1];
    if (running.child.ending()) continue;
    progress_.event(running.child.name(), "stopping", "stopping");
    running.child.note_shared_files();
    running.child.terminate();
  }
  const Instant deadline = deadline_after(now(), options_.stop_timeout);
  bool killed = false;
  const auto left = [&] {
    return std::any_of(running_.begin() + static_cast<std::ptrdiff_t>(from), running_.end(),
                       [](const Running& running) { return !running.child.ending(); });
  };
  const auto kill_rest = [&](std::string_view why) {
    killed = true;
    for (std::size_t i = running_.size(); i > from; --i) {
      Running& running = running_[i - 1];
      if (running.child.ending()) continue;
      progress_.event(running.child.name(), "killed", why, Tone::kWarning);
      running.child.kill();
    }
  };
  while (left()) {
    const Wake wake = wait(killed ? kFarFuture : deadline);
    if (wake == Wake::kSignal && signals_ >= 2 && !killed) kill_rest("killed on request");
    if (wake == Wake::kTick && !killed && now() >= deadline)
      kill_rest(fmt::format("killed: did not stop within {}",
                            app::format_duration(options_.stop_timeout)));
  }
  pump();
  for (std::size_t i = running_.size(); i > from; --i) {
    const Running& running = running_[i - 1];
    progress_.event(
        running.child.name(), "stopped",
        fmt::format("stopped ({})", describe(running.child.ending().value_or(Ending{}))));
    if (const std::size_t left = running.child.removed_files().size(); left > 0) {
      progress_.event(running.child.name(), "cleaned",
                      fmt::format("removed {} files that it left in /dev/shm", left));
    }
  }
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(from), running_.end());
}

}  // namespace sluice::cli
