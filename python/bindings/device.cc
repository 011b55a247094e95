#include "device.h"

#include "convert.h"
#include "no_gil.h"
#include "raise.h"

#ifdef SLUICE_WITH_CUDA
#include "device/cuda_device.h"
#endif

namespace sluice::python {
namespace {

void synchronise(DeviceHandle& self, std::uintptr_t stream) {
  Status status;
  {
    const NoGil no_gil;
    status = self.device->synchronise({reinterpret_cast<void*>(stream)});
  }
  value_of(std::move(status));
}

void wait(CopyInFlight& self) {
  Status status;
  {
    const NoGil no_gil;
    status = self.completion.wait();
  }
  value_of(std::move(status));
}

}  // namespace

void bind_device(nb::module_& module) {
  auto device = nb::class_<DeviceHandle>(
      module, "Device", "One memory kind: how bytes move between it and the arena.");
  device.def_static("host", [] { return DeviceHandle{make_host_device()}; })
      .def_prop_ro("name", [](const DeviceHandle& self) { return to_str(self.device->name()); })
      .def("synchronise", synchronise, nb::arg("stream") = 0)
      .def("__repr__", [](const DeviceHandle& self) {
        return nb::str("<sluice.Device {}>").format(to_str(self.device->name()));
      });
#ifdef SLUICE_WITH_CUDA
  device.def_static(
      "cuda", [](int ordinal) { return DeviceHandle{value_of(make_cuda_device(ordinal))}; },
      nb::arg("ordinal") = 0);
#endif
  nb::class_<CopyInFlight>(module, "Copy",
                           "A copy that may still run; dropping it waits for its end.")
      .def_prop_ro("done", [](const CopyInFlight& self) { return self.completion.done(); })
      .def("wait", wait);
}

}  // namespace sluice::python
