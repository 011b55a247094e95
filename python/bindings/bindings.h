// bindings.h: the classes of `sluice._core`, one function per file that adds its classes to the
// module.
//
// Rules of this folder
// Threads:  everything that waits or moves bytes gives the GIL up; wait-free reads keep it, since
//           taking it back could cost a thousand times more than the read.
// Failure:  a C++ Error becomes the Python exception of its code (raise.h). No other exception
//           leaves a binding, except Python's own TypeError for arguments of the wrong kind.
// Lifetime: memory seen by Python is held by a View (view.h), never by the object it was asked
//           from.
#pragma once

#include <nanobind/nanobind.h>

namespace sluice::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_key(nb::module_& module);
void bind_array(nb::module_& module);
void bind_device(nb::module_& module);
void bind_lease(nb::module_& module);
void bind_writer(nb::module_& module);
void bind_client(nb::module_& module);
void bind_kv(nb::module_& module);
void bind_kv_cache(nb::module_& module);

}  // namespace sluice::python
