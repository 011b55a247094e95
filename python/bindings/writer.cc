#include "writer.h"

#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include "array.h"
#include "base/checksum.h"
#include "convert.h"
#include "device.h"
#include "no_gil.h"
#include "raise.h"
#include "source_bytes.h"

namespace sluice::python {
namespace {

nb::object exit_block(WriterHandle& self, nb::handle type, nb::handle, nb::handle) {
  if (!self.open()) return nb::none();  // ended inside the block
  if (type.is_none()) {
    self.publish();
  } else {
    self.abandon();
  }
  return nb::none();
}

nb::str repr(const WriterHandle& self) {
  if (!self.open()) return nb::str("<sluice.Writer ended>");
  return nb::str("<sluice.Writer of {} bytes>").format(self.writer().bytes().size());
}

}  // namespace

WriterHandle::~WriterHandle() {
  // The Writer's own end abandons it, after the last write.
  if (open()) static_cast<void>(take().stop_writing());
}

const Writer& WriterHandle::writer() const {
  if (!writer_)
    raise({Code::kDetached, Drop::kObject, "this reservation has ended; reserve the key again"});
  if (writer_.bytes().empty()) {
    raise({Code::kDetached, Drop::kProcess, "this reservation belongs to the parent of a fork"});
  }
  return writer_;
}

std::span<std::byte> WriterHandle::data(std::optional<std::string_view> name) const {
  return writer().data(find_tensor(writer().tensors(), name));
}

std::shared_ptr<View> WriterHandle::view(std::optional<std::string_view> name) {
  const TensorView& tensor = writer().tensors()[find_tensor(writer().tensors(), name)];
  if (mapping_ == nullptr) {
    Result<std::shared_ptr<SecondMapping>> mapping;
    {
      const NoGil no_gil;
      mapping = SecondMapping::of(writer_.bytes());
    }
    mapping_ = value_of(std::move(mapping));
  }
  return std::make_shared<View>(mapping_, mapping_->data() + tensor.data_offset, tensor.spec,
                                tensor.data_bytes, true);
}

void WriterHandle::write(std::optional<std::string_view> name, nb::handle source) {
  const std::span<std::byte> to = data(name);
  const SourceBytes from(source, to.size(), name.value_or("tensor"));
  const NoGil no_gil;
  copy_bytes(to, from.bytes());
}

void WriterHandle::copy_from(std::optional<std::string_view> name, Device& device,
                             std::uintptr_t address, std::uintptr_t stream) {
  const std::span<std::byte> to = data(name);
  Result<Completion> started;
  {
    const NoGil no_gil;
    started = device.copy_out(to, {address}, {reinterpret_cast<void*>(stream)});
  }
  copies_.push_back(value_of(std::move(started)));
}

// Everything a reservation is made of, taken out of its handle while the GIL is held: another
// thread that uses the handle from then on finds it ended.
WriterHandle::Parts WriterHandle::take() noexcept {
  return {std::move(copies_), std::exchange(mapping_, nullptr), std::exchange(writer_, Writer())};
}

Status WriterHandle::Parts::stop_writing() {
  Status first;
  for (Completion& copy : copies) {
    if (auto ended = copy.wait(); !ended && first) first = std::move(ended);
  }
  if (mapping != nullptr) mapping->detach();
  return first;
}

PutOutcome WriterHandle::publish(std::optional<std::chrono::milliseconds> timeout) {
  writer();  // refuses
  Parts parts = take();
  Result<PutOutcome> outcome;
  {
    const NoGil no_gil;
    if (Status copied = parts.stop_writing(); copied) {
      outcome = parts.writer.publish(timeout);
    } else {
      static_cast<void>(parts.writer.abandon());
      outcome = std::unexpected(std::move(copied.error()));
    }
  }
  return value_of(std::move(outcome));
}

void WriterHandle::abandon() {
  if (!open()) return;
  Parts parts = take();
  Status status;
  {
    const NoGil no_gil;
    static_cast<void>(parts.stop_writing());  // a failed copy has ended as well
    status = parts.writer.abandon();
  }
  value_of(std::move(status));
}

void bind_writer(nb::module_& module) {
  nb::class_<WriterHandle>(
      module, "Writer",
      "A reservation being written. Dropped without publish() it is abandoned.\n\n"
      "Its tensors are the arena's memory until publish() or abandon(); after that they keep their "
      "content as private memory, and writing to them reaches nobody.")
      .def_prop_ro("tensors",
                   [](const WriterHandle& self) { return to_infos(self.writer().tensors()); })
      .def(
          "array",
          [](WriterHandle& self, std::optional<std::string_view> name) {
            return Array(self.view(name));
          },
          nb::arg("name") = nb::none())
      .def("write", &WriterHandle::write, nb::arg("name").none(), nb::arg("source"))
      .def(
          "copy_from",
          [](WriterHandle& self, std::optional<std::string_view> name, DeviceHandle& device,
             std::uintptr_t address,
             std::uintptr_t stream) { self.copy_from(name, *device.device, address, stream); },
          nb::arg("name").none(), nb::arg("device"), nb::arg("address"), nb::arg("stream") = 0)
      .def(
          "publish",
          [](WriterHandle& self, std::optional<double> timeout) {
            std::optional<std::chrono::milliseconds> limit;
            if (timeout) limit = to_timeout(*timeout, "timeout");
            return to_str(sluice::name(self.publish(limit)));
          },
          nb::arg("timeout") = nb::none())
      .def("abandon", &WriterHandle::abandon)
      .def_prop_ro("open", &WriterHandle::open)
      .def_prop_ro("live_views", &WriterHandle::live_views)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", exit_block, nb::arg("type").none(), nb::arg("value").none(),
           nb::arg("traceback").none())
      .def("__repr__", repr);
}

}  // namespace sluice::python
