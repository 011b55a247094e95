#include "progress.h"

#include <array>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/quantity.h"

namespace sluice::cli {
namespace {

constexpr std::array kSpinner = {"|", "/", "-", "\\"};
constexpr std::uint64_t kPlainEveryNs = 10'000 * kNsPerMs;

std::string waited(Instant since, Instant time) {
  return fmt::format("{:.0f} s", since < time ? static_cast<double>(time - since) / 1e9 : 0.0);
}

}  // namespace

void Progress::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stdout);
  drawn_ = false;
}

void Progress::event(std::string_view name, std::string_view event, std::string_view text,
                     Tone tone) {
  clear();
  if (out_.json()) {
    out_.row({{"event", event}, {"name", name}, {"text", text}});
  } else {
    out_.line(fmt::format("{}: {}", name, out_.paint(printable(text), tone)));
  }
  std::fflush(stdout);
}

void Progress::log_line(std::string_view name, std::string_view line) {
  clear();
  if (out_.json()) {
    out_.row({{"event", "log"}, {"name", name}, {"text", line}});
  } else {
    out_.line(
        fmt::format("{} {}", out_.paint(fmt::format("{} |", name), Tone::kFaint), printable(line)));
  }
  std::fflush(stdout);
}

void Progress::note(std::string_view text) {
  clear();
  if (out_.json()) return;
  out_.line(text);
  std::fflush(stdout);
}

void Progress::tick(const std::vector<StageState>& stages, Instant time) {
  std::string waiting;
  for (const StageState& stage : stages) {
    if (stage.ready) continue;
    waiting += fmt::format("{}{} ({})", waiting.empty() ? "" : ", ", stage.name,
                           waited(stage.since, time));
  }
  if (waiting.empty() || out_.json()) return;
  if (out_.terminal()) {
    std::string line =
        fmt::format("{} waiting for {}", kSpinner[turns_++ % kSpinner.size()], waiting);
    line.resize(std::min(line.size(),
                         static_cast<std::size_t>(out_.columns() > 1 ? out_.columns() - 1 : 1)));
    std::fputs("\r\x1b[K", stdout);
    std::fputs(line.c_str(), stdout);
    drawn_ = true;
  } else if (last_word_ == 0) {
    last_word_ = time;
  } else if (time - last_word_ >= kPlainEveryNs) {
    last_word_ = time;
    out_.line(fmt::format("waiting for {}", waiting));
  }
  std::fflush(stdout);
}

}  // namespace sluice::cli
