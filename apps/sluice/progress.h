// progress.h: what `sluice up` says while it works: a spinner line on a terminal, plain lines in a
// pipe, JSON events.
//
// Threads: one owner.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "output.h"

namespace sluice::cli {

struct StageState {
  std::string name;
  bool ready = false;
  Instant since = 0;
};

class Progress {
 public:
  explicit Progress(const Output& out) : out_(out) {}

  // `event` is a word for machines ("started", "ready", "stopped", "failed"), `text` a phrase for
  // people.
  void event(std::string_view name, std::string_view event, std::string_view text,
             Tone tone = Tone::kPlain);
  void log_line(std::string_view name, std::string_view line);
  void note(std::string_view text);

  // Called a few times a second: redraws the spinner, or now and then says in a pipe what is still
  // awaited.
  void tick(const std::vector<StageState>& stages, Instant time);
  void clear();  // takes the spinner line away

 private:
  const Output& out_;
  bool drawn_ = false;
  unsigned turns_ = 0;
  Instant last_word_ = 0;
};

}  // namespace sluice::cli
