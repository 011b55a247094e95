// health_prober.h: asks every instance for GET /health, again and again.
//
// Invariant: one probe of an instance at a time; each ends by its time-out, so a stalled engine
//            cannot hold the others' probes up.
// Threads:   the worker's. It ends with the io_context.
#pragma once

#include "proxy/core.h"

namespace sluice::proxy {

// Starts probing on the worker's thread.
void start_probing(Core& core, Worker& worker);

}  // namespace sluice::proxy
