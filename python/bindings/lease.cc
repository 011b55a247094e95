#include "lease.h"

#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <sluice/device.h>

#include "array.h"
#include "base/checked.h"
#include "convert.h"
#include "device.h"
#include "no_gil.h"
#include "raise.h"

namespace sluice::python {
namespace {

[[noreturn]] void raise_ended() {
  raise({Code::kDetached, Drop::kObject, "this lease has ended; get the object again"});
}

const std::shared_ptr<LeaseMemory>& memory_of(const LeaseHandle& self) {
  if (self.memory == nullptr) raise_ended();
  return self.memory;
}

const Lease& lease_of(const LeaseHandle& self) {
  return memory_of(self)->lease();
}

Array array(const LeaseHandle& self, std::optional<std::string_view> name, bool shared) {
  return Array(view_of(memory_of(self), name, shared));
}

nb::bytes read(const LeaseHandle& self, std::uint64_t offset, std::uint64_t bytes) {
  const Lease& lease = lease_of(self);
  if (!fits(offset, bytes, lease.bytes().size())) {
    raise_invalid("the range of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                  " is not inside the object's " + std::to_string(lease.bytes().size()) + " bytes");
  }
  auto out =
      nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
  if (!out.is_valid()) throw nb::python_error();
  const std::span to(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(out.ptr())), bytes);
  const Pinned::Hold hold(self.memory);  // keeps the lease while the GIL is away
  Status status;
  {
    const NoGil no_gil;
    status = lease.read(offset, to);
  }
  value_of(std::move(status));
  return out;
}

CopyInFlight copy_to(const LeaseHandle& self, std::optional<std::string_view> name,
                     DeviceHandle& device, std::uintptr_t address, std::uintptr_t stream) {
  auto view = view_of(memory_of(self), name, true);
  Result<Completion> started;
  {
    const NoGil no_gil;
    started = device.device->copy_in({address}, {view->data(), view->bytes()},
                                     {reinterpret_cast<void*>(stream)});
  }
  return CopyInFlight{std::move(view), value_of(std::move(started))};
}

void release(const LeaseHandle& self) {
  if (self.memory != nullptr) self.memory->release();
}

nb::str repr(const LeaseHandle& self) {
  if (self.memory == nullptr || !self.memory->alive()) return nb::str("<sluice.Lease ended>");
  nb::list parts;
  for (const TensorView& tensor : value_of(lease_of(self).tensors())) {
    parts.append(nb::str("{}={} {}")
                     .format(to_str(tensor.name), to_str(name(tensor.spec.dtype)),
                             to_tuple(tensor.spec.shape)));
  }
  return nb::str("<sluice.Lease {} bytes: {}>")
      .format(lease_of(self).bytes().size(), nb::str(", ").attr("join")(parts));
}

void bind_info(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo", "One tensor of an object.")
      .def_prop_ro("name", [](const TensorInfo& self) { return to_str(self.view.name); })
      .def_prop_ro("dtype",
                   [](const TensorInfo& self) { return to_str(name(self.view.spec.dtype)); })
      .def_prop_ro("shape", [](const TensorInfo& self) { return to_tuple(self.view.spec.shape); })
      .def_prop_ro("nbytes", [](const TensorInfo& self) { return self.view.data_bytes; })
      .def_prop_ro("data_offset", [](const TensorInfo& self) { return self.view.data_offset; })
      .def("__repr__", [](const TensorInfo& self) {
        return nb::str("TensorInfo(name={!r}, dtype={!r}, shape={!r})")
            .format(to_str(self.view.name), to_str(name(self.view.spec.dtype)),
                    to_tuple(self.view.spec.shape));
      });
}

nb::tuple to_tuple(const Descriptor& self) {
  return nb::make_tuple(self.boot, self.slot, self.generation, self.segment, self.offset,
                        self.object_bytes);
}

void bind_descriptor(nb::module_& module) {
  nb::class_<Descriptor>(module, "Descriptor",
                         "Where an object lies: six integers that another process can adopt.")
      .def(
          "__init__",
          [](Descriptor* self, std::uint64_t boot, std::uint32_t slot, std::uint32_t generation,
             std::uint32_t segment, std::uint64_t offset, std::uint64_t object_bytes) {
            new (self) Descriptor{boot, slot, generation, segment, offset, object_bytes};
          },
          nb::arg("boot"), nb::arg("slot"), nb::arg("generation"), nb::arg("segment"),
          nb::arg("offset"), nb::arg("object_bytes"))
      .def_ro("boot", &Descriptor::boot)
      .def_ro("slot", &Descriptor::slot)
      .def_ro("generation", &Descriptor::generation)
      .def_ro("segment", &Descriptor::segment)
      .def_ro("offset", &Descriptor::offset)
      .def_ro("object_bytes", &Descriptor::object_bytes)
      .def("to_tuple", [](const Descriptor& self) { return to_tuple(self); })
      .def(
          "__eq__",
          [](const Descriptor& self, nb::handle other) {
            return nb::isinstance<Descriptor>(other) && self == nb::cast<const Descriptor&>(other);
          },
          nb::arg("other").none())
      .def("__hash__", [](const Descriptor& self) { return nb::hash(to_tuple(self)); })
      .def("__reduce__",
           [](const Descriptor& self) {
             return nb::make_tuple(nb::type<Descriptor>(), to_tuple(self));
           })
      .def("__repr__", [](const Descriptor& self) {
        return nb::str(
                   "Descriptor(boot={}, slot={}, generation={}, segment={}, offset={}, "
                   "object_bytes={})")
            .format(self.boot, self.slot, self.generation, self.segment, self.offset,
                    self.object_bytes);
      });
}

}  // namespace

const Lease& LeaseMemory::lease() const {
  if (!lease_) raise_ended();
  return lease_;
}

void LeaseMemory::release() {
  if (!lease_) return;
  if (const std::size_t alive = views(); alive != 0) {
    raise({Code::kInvalidArgument, Drop::kNothing,
           std::to_string(alive) + " tensors or calls still use this lease; delete them first, the "
                                   "lease ends with the last one by itself"});
  }
  lease_.release();
}

Status verify_lease(const std::shared_ptr<LeaseMemory>& memory, Verify mode) {
  const Lease& lease = memory->lease();
  if (mode == Verify::kNever || (mode == Verify::kOnce && lease.verified())) return {};
  const Pinned::Hold hold(memory);
  const NoGil no_gil;
  return lease.verify(mode);
}

std::shared_ptr<View> view_of(const std::shared_ptr<LeaseMemory>& memory,
                              std::optional<std::string_view> name, bool shared) {
  const Lease& lease = memory->lease();
  auto tensors = value_of(lease.tensors());
  TensorView& tensor = tensors[find_tensor(tensors, name)];
  // A shared view is read-only for Python; only the private mapping may be written without harm to
  // others.
  std::byte* const bytes =
      shared ? const_cast<std::byte*>(lease.bytes().data()) : lease.private_bytes().data();
  if (bytes == nullptr) {
    raise({Code::kIo, Drop::kObject, "this process has no memory for a private view of the arena"});
  }
  return std::make_shared<View>(memory, bytes + tensor.data_offset, std::move(tensor.spec),
                                tensor.data_bytes, !shared);
}

void bind_lease(nb::module_& module) {
  bind_info(module);
  bind_descriptor(module);
  nb::class_<LeaseHandle>(
      module, "Lease",
      "A view of one published object. While it or a tensor of it lives, the bytes stay.")
      .def_prop_ro(
          "tensors",
          [](const LeaseHandle& self) { return to_infos(value_of(lease_of(self).tensors())); })
      .def_prop_ro(
          "attributes",
          [](const LeaseHandle& self) { return to_dict(value_of(lease_of(self).attributes())); })
      .def_prop_ro("descriptor",
                   [](const LeaseHandle& self) { return lease_of(self).descriptor(); })
      .def_prop_ro("verified", [](const LeaseHandle& self) { return lease_of(self).verified(); })
      .def_prop_ro("has_checksums",
                   [](const LeaseHandle& self) { return lease_of(self).has_checksums(); })
      .def_prop_ro("nbytes", [](const LeaseHandle& self) { return lease_of(self).bytes().size(); })
      .def(
          "verify",
          [](const LeaseHandle& self, std::string_view mode) {
            value_of(verify_lease(memory_of(self), to_verify(mode)));
          },
          nb::arg("mode") = "once")
      .def("array", array, nb::arg("name") = nb::none(), nb::kw_only(), nb::arg("shared") = false)
      .def("read", read, nb::arg("offset"), nb::arg("nbytes"))
      .def("copy_to", copy_to, nb::arg("name").none(), nb::arg("device"), nb::arg("address"),
           nb::arg("stream") = 0)
      .def("release", release)
      .def_prop_ro("live_views",
                   [](const LeaseHandle& self) { return self.memory ? self.memory->views() : 0; })
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](LeaseHandle& self, const nb::args&) { self.memory.reset(); })
      .def("__repr__", repr);
}

}  // namespace sluice::python
