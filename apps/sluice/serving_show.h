// serving_show.h: the serving path on the screen, and as JSON for scripts.
//
// Threads: one owner. Text from elsewhere is shown without its control characters.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "output.h"
#include "serving_view.h"

namespace sluice::cli {

// Times in seconds; what nobody measured is null. docs/operating/command-line.md names the members.
nlohmann::ordered_json to_json(const ServingView& view);

void print(const Output& out, const ServingView& view);

}  // namespace sluice::cli
