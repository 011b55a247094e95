// device.h: memory kinds in Python: where a tensor lies when it does not lie in host memory.
//
// Invariant: a copy in flight keeps the arena memory that it uses.
#pragma once

#include <memory>

#include <sluice/device.h>

#include "bindings.h"
#include "view.h"

namespace sluice::python {

struct DeviceHandle {
  std::unique_ptr<Device> device;
};

// Member order is the order of ends: the copy waits before the memory is given up.
struct CopyInFlight {
  std::shared_ptr<View> memory;
  Completion completion;
};

}  // namespace sluice::python
