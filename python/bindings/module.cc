// The module `sluice._core`.
#include "bindings.h"

NB_MODULE(_core, module) {
  module.doc() = "The native part of Sluice; use the package `sluice`.";
  // A tensor made from a lease may live as long as the interpreter (an engine's cache, a module's
  // global). That is not a leak of ours, and the daemon takes the lease back when the process ends.
  nanobind::set_leak_warnings(false);
  sluice::python::bind_errors(module);
  sluice::python::bind_key(module);
  sluice::python::bind_array(module);
  sluice::python::bind_device(module);
  sluice::python::bind_lease(module);
  sluice::python::bind_writer(module);
  sluice::python::bind_client(module);
  sluice::python::bind_kv(module);
  sluice::python::bind_kv_cache(module);
}
