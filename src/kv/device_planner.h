// device_planner.h: the plan of a transfer, for the GPU that carries it out.
//
// Threads: pure.
// Failure: kLimit for a transfer of more rows or pieces than a launch can number.
#pragma once

#include <vector>

#include <sluice/error.h>

#include "kv/device_plan.h"
#include "kv/paged_copy.h"

namespace sluice::kv {

struct PlannedCopy {
  DevicePlan plan;
  std::vector<DeviceLayer> layers;
};

// Requires a transfer that check_gather() or check_scatter() accepted, with at least one block.
// Addresses are only reckoned with.
Result<PlannedCopy> plan_copy(std::byte* part, const Transfer& transfer);

}  // namespace sluice::kv
