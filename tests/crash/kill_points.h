// kill_points.h: ends this process at the n-th pass of one named kill point (base/kill_point.h).
//
// Threads: arm() before the store is used; kill_point() from the store loop.
#pragma once

#include <string>
#include <vector>

namespace sluice::crash {

void arm_kill_point(std::string name, unsigned hit);

// Every name that stands in a KILL_POINT of the store's sources.
std::vector<std::string> kill_point_names();

}  // namespace sluice::crash
