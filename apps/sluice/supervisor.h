// supervisor.h: starts stages, waits until each is ready, watches them, stops them.
//
// Invariant: while any stage runs, the end of one of them, a signal, or a stage that is not ready
//            in time leads to the end of all: later stages first, then the first one (sluiced),
//            SIGTERM and at a deadline SIGKILL.
// Threads:   one owner, one thread: everything happens in one poll loop.
// Failure:   run() answers an exit code and has said which stage failed, how, and its last log
//            lines.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "child.h"
#include "interrupt.h"
#include "progress.h"

namespace sluice::cli {

struct Stage {
  ChildSpec spec;
  bool first = false;   // ready before any other is started, stopped after all others
  std::string awaited;  // what ready means, for messages: "GET http://127.0.0.1:8100/health"
  std::function<bool(const Child&)>
      ready;  // asked every quarter second; at most half a second long
};

struct SupervisorOptions {
  std::chrono::milliseconds ready_timeout;
  std::chrono::milliseconds stop_timeout;
  bool show_logs = false;
  std::function<Status()> on_ready;  // everything is up
};

class Supervisor {
 public:
  Supervisor(std::vector<Stage> stages, SupervisorOptions options, Progress& progress,
             const Interrupt& interrupt);
  ~Supervisor();  // nothing it started outlives it
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run();

 private:
  struct Running {
    const Stage* stage = nullptr;
    Child child;
    Instant started = 0;
    bool ready = false;
    Instant noted = 0;  // its files in shared memory, last
  };
  enum class Wake { kTick, kSignal, kEnded };

  bool start_stage(const Stage& stage);
  bool bring_up();
  bool await_ready(std::size_t from);
  int serve();
  void stop_all();
  void stop_group(std::size_t from);
  Wake wait(Instant deadline);
  void pump();
  void note_shared_files(Instant time);
  Running* ended();
  void report(const Running& running, std::string_view why);
  void report_ending(const Running& running);

  std::vector<Stage> stages_;
  SupervisorOptions options_;
  Progress& progress_;
  const Interrupt& interrupt_;
  std::vector<Running> running_;
  int exit_code_ = 0;
  int signals_ = 0;
};

}  // namespace sluice::cli
