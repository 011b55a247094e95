// bench.cc: `sluice bench`: the running arena's latency and throughput, beside a plain copy.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/quantity.h"
#include "measure.h"

namespace sluice::cli {
namespace {

const std::vector<std::uint64_t> kDefaultSizes = {4 << 10, 1 << 20, 16 << 20};

void print(const Output& out, const std::vector<Figure>& figures) {
  Output::Table table{.header = {"PATH", "SIZE", "CALLS", "P50", "P99", "RATE", "OF MEMCPY"},
                      .rows = {},
                      .right = {false, true, true, true, true, true, true}};
  double copy_rate = 0;
  for (const Figure& figure : figures) {
    if (figure.name == "memcpy") copy_rate = figure.bytes_per_second;
    const bool moves = figure.bytes > 0;
    table.rows.push_back(
        {figure.name, moves ? app::format_size(figure.bytes) : "-", fmt::format("{}", figure.calls),
         fmt::format("{:.2f} us", figure.us_p50), fmt::format("{:.2f} us", figure.us_p99),
         moves ? app::format_rate(figure.bytes_per_second) : "-",
         moves && copy_rate > 0 ? fmt::format("{:.2f}", figure.bytes_per_second / copy_rate)
                                : "-"});
  }
  out.table(table);
}

}  // namespace

int run(const Global& global, const BenchCommand& command) {
  const Output out(global.look);
  const auto client = attach(global, Use::kHot);
  if (!client) {
    out.error(client.error());
    return app::kExitError;
  }
  std::vector<Figure> all;
  for (const std::uint64_t bytes : command.sizes.empty() ? kDefaultSizes : command.sizes) {
    const auto figures = measure_paths(
        **client, bytes, {.time_per_case = command.time_per_case, .timeout = global.timeout});
    if (!figures) {
      out.error(figures.error());
      return app::kExitError;
    }
    all.insert(all.end(), figures->begin(), figures->end());
  }
  if (!out.json()) {
    print(out, all);
    return app::kExitOk;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Figure& figure : all) {
    list.push_back({{"path", figure.name},
                    {"bytes", figure.bytes},
                    {"calls", figure.calls},
                    {"us_p50", figure.us_p50},
                    {"us_p99", figure.us_p99},
                    {"bytes_per_second", figure.bytes_per_second}});
  }
  out.value({{"figures", std::move(list)}});
  return app::kExitOk;
}

}  // namespace sluice::cli
