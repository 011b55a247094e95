// doctor.cc: `sluice doctor [FILE]`: is this machine, this configuration, this arena in order, and
// if not, what to do.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "commands.h"
#include "common/daemon_settings.h"
#include "common/exit_code.h"
#include "common/quantity.h"
#include "doctor_checks.h"
#include "measure.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t kMeasureBytes = 4 << 20;
constexpr std::chrono::milliseconds kLook{300};

struct Report {
  Findings findings;
  std::vector<Figure> figures;
  std::uint64_t transfers = 0;  // objects read by the processes attached now
  bool attached = false;
};

void add(Findings& to, Findings more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void check_counters(const ArenaStats& stats, const std::vector<ClientInfo>& clients,
                    Report& report) {
  std::uint64_t corrupt = 0, published = 0;
  for (const ClientInfo& client : clients) {
    corrupt += client.corrupt;
    report.transfers += client.gets;
    published += client.puts;
  }
  report.findings.push_back(
      {Level::kOk, "arena",
       fmt::format("{} objects published since it was made, {} of them by processes attached now; "
                   "{} transfers seen (objects read by processes attached now)",
                   stats.published_total, published, report.transfers),
       ""});
  if (corrupt > 0) {
    report.findings.push_back({Level::kProblem, "arena",
                               fmt::format("{} reads did not match their checksum", corrupt),
                               "a process writes where it must not, or memory is faulty: find it "
                               "with `sluice top`, test the memory"});
  }
  if (stats.out_of_space_total > 0) {
    report.findings.push_back({Level::kWarning, "arena",
                               fmt::format("{} puts found no space", stats.out_of_space_total),
                               "make the arena larger (size), or let engines hold fewer features"});
  }
  if (stats.divergent_duplicates_total > 0) {
    report.findings.push_back(
        {Level::kNote, "arena",
         fmt::format("{} puts of a known key brought other bytes; the first stayed",
                     stats.divergent_duplicates_total),
         "expected between encoders of different parallelism; otherwise set connector.revision per "
         "set of weights"});
  }
  if (stats.conflicts_total > 0) {
    report.findings.push_back(
        {Level::kWarning, "arena",
         fmt::format("{} puts conflicted with an object of another shape or dtype",
                     stats.conflicts_total),
         "two configurations share a key: set connector.encoder or connector.revision"});
  }
  if (stats.refused_total > 0) {
    report.findings.push_back(
        {Level::kWarning, "arena",
         fmt::format("{} malformed or forbidden requests were refused", stats.refused_total),
         "see sluiced's log for who sent them"});
  }
}

// Without a topology a missing daemon is a problem; with one, it may simply not be up yet.
void check_running_arena(const Global& global, const DoctorCommand& command, Report& report) {
  const auto client = attach(global, command.measure ? Use::kHot : Use::kOnce);
  if (!client) {
    report.findings.push_back(
        {command.file.empty() ? Level::kProblem : Level::kNote, "daemon", client.error().message,
         command.file.empty()
             ? "start sluiced, or check a topology file instead: sluice doctor FILE"
             : ""});
    return;
  }
  report.attached = true;
  const ArenaStats stats = (*client)->stats();
  report.findings.push_back(
      {Level::kOk, "daemon",
       fmt::format("sluiced serves, process {}, {} of {} used", stats.daemon_pid,
                   app::format_size(stats.used_bytes), app::format_size(stats.arena_bytes)),
       ""});
  check_counters(stats, (*client)->clients(), report);
  if (!command.measure) return;
  auto figures =
      measure_paths(**client, kMeasureBytes,
                    {.time_per_case = std::chrono::milliseconds(200), .timeout = global.timeout});
  if (figures) {
    report.figures = std::move(*figures);
  } else {
    report.findings.push_back({Level::kWarning, "speed",
                               fmt::format("could not be measured: {}", figures.error().message),
                               "free space in the arena, then run doctor again"});
  }
}

std::uint64_t wanted_bytes(const Topology& topology) {
  app::Layers layers{
      .file = topology.arena, .file_path = "[arena]", .environment = {}, .flags = {}};
  const auto settings =
      app::resolve_daemon_settings(app::merge(app::daemon_settings_table(), layers));
  return settings ? settings->store.arena_bytes : 0;
}

// Each interpreter is asked once for each environment, with the settings of all its engines.
void check_pythons(const Topology& topology, const DoctorCommand& command, Findings& out) {
  std::vector<PythonQuestion> questions;
  for (const EngineSpec& engine : topology.engines) {
    if (!engine.command.empty()) continue;
    std::vector<std::string> environment =
        changed_environment(command.environment, engine.environment);
    auto known = std::ranges::find_if(questions, [&](const PythonQuestion& question) {
      return question.python == engine.python && question.environment == environment;
    });
    if (known == questions.end()) {
      questions.push_back(
          {.python = engine.python, .environment = std::move(environment), .settings_json = {}});
      known = questions.end() - 1;
    }
    if (!ec_role(engine.role).empty()) known->settings_json.push_back(engine.connector.dump());
  }
  for (const PythonQuestion& question : questions) add(out, check_python(question));
}

Status examine(Global& global, const DoctorCommand& command, Report& report) {
  if (command.file.empty()) {
    add(report.findings, check_machine(0));
    add(report.findings,
        check_python(
            {.python = command.python, .environment = command.environment, .settings_json = {}}));
  } else {
    const auto text = app::read_config_file(command.file);
    if (!text) return std::unexpected(text.error());
    const auto topology = parse_topology(*text, command.file);
    if (!topology) return std::unexpected(topology.error());
    const auto directory = arena_directory(*topology);
    if (!directory) return std::unexpected(directory.error());
    global.arena = topology->arena_name;
    global.directory = *directory;
    Global look = global;
    look.timeout = std::min(look.timeout, kLook);  // it may well not be up yet
    // A running daemon has taken its memory already.
    const bool running = attach(look).has_value();
    add(report.findings, check_machine(running ? 0 : wanted_bytes(*topology)));
    check_pythons(*topology, command, report.findings);
    add(report.findings, check_topology(*topology));
    if (!running) {
      check_running_arena(look, command, report);
      return {};
    }
  }
  check_running_arena(global, command, report);
  return {};
}

const char* word(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "?";
}

Tone tone(Level level) {
  switch (level) {
    case Level::kOk:
      return Tone::kGood;
    case Level::kNote:
      return Tone::kFaint;
    case Level::kWarning:
      return Tone::kWarning;
    case Level::kProblem:
      return Tone::kBad;
  }
  return Tone::kPlain;
}

void print(const Output& out, const Report& report, std::ptrdiff_t problems) {
  for (const Finding& finding : report.findings) {
    out.line(fmt::format("{} {:<14} {}",
                         out.paint(fmt::format("{:<8}", word(finding.level)), tone(finding.level)),
                         finding.area, printable(finding.what)));
    if (!finding.fix.empty()) out.line(fmt::format("{:<24}fix: {}", "", printable(finding.fix)));
  }
  for (const Figure& figure : report.figures) {
    const std::string speed = figure.bytes > 0
                                  ? fmt::format("{:.0f} MB/s", figure.bytes_per_second / 1e6)
                                  : fmt::format("{:.2f} us a call", figure.us_p50);
    out.line(fmt::format("{} {:<14} {}: {}", out.paint(fmt::format("{:<8}", "ok"), Tone::kGood),
                         "speed", figure.name, speed));
  }
  out.line(problems == 0 ? "no problem found"
                         : fmt::format("{} problem{} found", problems, problems == 1 ? "" : "s"));
}

json as_json(const Report& report, std::ptrdiff_t problems) {
  json findings = json::array(), figures = json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"level", word(finding.level)},
                        {"area", finding.area},
                        {"what", finding.what},
                        {"fix", finding.fix}});
  }
  for (const Figure& figure : report.figures) {
    figures.push_back({{"path", figure.name},
                       {"bytes", figure.bytes},
                       {"us_p50", figure.us_p50},
                       {"megabytes_per_second", figure.bytes_per_second / 1e6}});
  }
  return {{"problems", problems},
          {"findings", std::move(findings)},
          {"speed", std::move(figures)},
          {"transfers_seen", report.transfers},
          {"daemon", report.attached}};
}

}  // namespace

int run(const Global& asked, const DoctorCommand& command) {
  Global global = asked;
  const Output out(global.look);
  Report report;
  if (const auto examined = examine(global, command, report); !examined) {
    out.error(examined.error());
    return app::kExitBadConfig;
  }
  const auto problems = std::ranges::count(report.findings, Level::kProblem, &Finding::level);
  if (out.json()) {
    out.value(as_json(report, problems));
  } else {
    print(out, report, problems);
  }
  return problems == 0 ? app::kExitOk : app::kExitError;
}

}  // namespace sluice::cli
