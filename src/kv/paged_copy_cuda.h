// paged_copy_cuda.h: the kernels that carry a plan out: all layers, planes and blocks of a transfer
// in one launch.
//
// Neighbouring threads copy neighbouring vectors of a piece; a group of just as many threads as a
// piece has vectors (at most a warp) takes one piece after the other, several vectors in flight.
//
// Threads: any; the GPU that the stream belongs to is current.
// Failure: the runtime's error of the launch. Errors of the copy show at the stream.
#pragma once

#include <cuda_runtime_api.h>

#include "kv/device_plan.h"

namespace sluice::kv {

enum class Direction : std::uint8_t { kGather, kScatter };

// `layers` and `block_ids` lie where the GPU can read them, until the launch has run. A plan
// without rows is not launched.
cudaError_t launch_paged_copy(const DevicePlan& plan, const DeviceLayer* layers,
                              const std::uint32_t* block_ids, Direction direction,
                              cudaStream_t stream);

}  // namespace sluice::kv
