// doctor_checks.h: the checks of `sluice doctor`. Each looks at one side and only reads (the Python
// check runs the engine's interpreter, nothing else is started).
#pragma once

#include <string>

#include "finding.h"
#include "topology.h"

namespace sluice::cli {

// Shared memory, limits, huge pages, devices. `arena_bytes`: what is going to be taken; 0: nothing.
Findings check_machine(std::uint64_t arena_bytes);

// Roles that can work together, models, ports, and the arena against what the engines keep in their
// encoder caches.
Findings check_topology(const Topology& topology);

// What a Python can import, and what the connector says to its settings.
struct PythonQuestion {
  std::string python;
  std::vector<std::string> environment;    // NAME=value, all of it
  std::vector<std::string> settings_json;  // ec_connector_extra_config of each engine that it runs
};
Findings check_python(const PythonQuestion& question);

}  // namespace sluice::cli
