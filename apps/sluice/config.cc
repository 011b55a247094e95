// config.cc: `sluice config`: the effective settings of this program and of a sluiced started here,
// and where each came from.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common/exit_code.h"

namespace sluice::cli {
namespace {

nlohmann::ordered_json as_json(const std::vector<app::Effective>& settings) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const app::Effective& entry : settings)
    out[entry.name] = {{"value", entry.value}, {"from", entry.where}};
  return out;
}

void print(const Output& out, std::string_view title, const std::vector<app::Effective>& settings) {
  out.line(out.paint(title, Tone::kStrong));
  for (const app::Effective& entry : settings) {
    out.line(fmt::format("  {:<20} {:<24} {}", entry.name,
                         entry.value.empty() ? "\"\"" : printable(entry.value),
                         out.paint("# " + printable(entry.where), Tone::kFaint)));
  }
}

}  // namespace

int run(const Global& global, const ConfigCommand& command) {
  const Output out(global.look);
  if (out.json()) {
    out.value({{"sluice", as_json(command.own)}, {"sluiced", as_json(command.daemon)}});
  } else {
    print(out, "sluice", command.own);
    print(out, "sluiced (as it would start in this environment)", command.daemon);
  }
  return app::kExitOk;
}

}  // namespace sluice::cli
