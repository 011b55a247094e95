#include "array.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "bindings.h"
#include "convert.h"
#include "raise.h"

namespace sluice::python {
namespace {

// Format characters of Python's struct module, native sizes.
const char* buffer_format(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
      return "f";
    case DType::kF64:
      return "d";
    case DType::kF16:
      return "e";
    case DType::kI8:
      return "b";
    case DType::kU8:
      return "B";
    case DType::kI16:
      return "h";
    case DType::kU16:
      return "H";
    case DType::kI32:
      return "i";
    case DType::kU32:
      return "I";
    case DType::kI64:
      return "q";
    case DType::kU64:
      return "Q";
    case DType::kBool:
      return "?";
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return nullptr;
  }
  return nullptr;
}

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  return nb::inst_ptr<Array>(self)->fill(self, buffer, flags);
}

const PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::object dlpack(const Array& self, nb::handle,
                  const std::optional<std::pair<int, int>>& max_version,
                  const std::optional<std::pair<int, int>>& device, std::optional<bool> copy) {
  if (copy.value_or(false))
    throw nb::buffer_error("this array is exported without a copy; pass copy=None");
  if (device && device->first != 1)
    throw nb::buffer_error("this array lies in host memory; pass dl_device=None");
  const bool versioned = max_version && max_version->first >= 1;
  if (!versioned && !self.view()->writable()) {
    throw nb::buffer_error(
        "this array is read-only, which DLPack can say only from version 1.0 on");
  }
  return to_dlpack(self.view(), versioned);
}

nb::str repr(const Array& self) {
  const View& view = *self.view();
  return nb::str("<sluice.Array {} {}{}>")
      .format(to_str(name(view.spec().dtype)), to_tuple(view.spec().shape),
              view.writable() ? "" : " read-only");
}

}  // namespace

Array::Array(std::shared_ptr<View> view)
    : view_(std::move(view)), format_(buffer_format(view_->spec().dtype)) {
  const TensorSpec& spec = view_->spec();
  if (format_ == nullptr) {
    format_ = "B";
    dims_ = 1;
    shape_[0] = static_cast<Py_ssize_t>(view_->bytes());
    strides_[0] = 1;
    return;
  }
  item_bytes_ = static_cast<Py_ssize_t>(size_of(spec.dtype));
  dims_ = static_cast<int>(spec.shape.size());
  const Extents strides = contiguous_strides(spec, item_bytes_);
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    shape_[i] = spec.shape[i];
    strides_[i] = strides[i];
  }
}

int Array::fill(PyObject* self, Py_buffer* buffer, int flags) noexcept {
  buffer->obj = nullptr;
  if ((flags & PyBUF_WRITABLE) != 0 && !view_->writable()) {
    PyErr_SetString(PyExc_BufferError, "this array is read-only");
    return -1;
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && dims_ > 1) {
    PyErr_SetString(PyExc_BufferError, "this array is C-contiguous");
    return -1;
  }
  buffer->buf = view_->data();
  buffer->len = static_cast<Py_ssize_t>(view_->bytes());
  buffer->readonly = view_->writable() ? 0 : 1;
  buffer->itemsize = item_bytes_;
  buffer->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format_) : nullptr;
  buffer->ndim = dims_;
  buffer->shape = (flags & PyBUF_ND) != 0 ? shape_.data() : nullptr;
  buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? strides_.data() : nullptr;
  buffer->suboffsets = nullptr;
  buffer->internal = nullptr;
  buffer->obj = Py_NewRef(self);
  return 0;
}

void bind_array(nb::module_& module) {
  nb::class_<Array>(
      module, "Array", nb::type_slots(kSlots),
      "One tensor's memory, offered without a copy through DLPack and the buffer protocol.\n\n"
      "bfloat16 and float8 have no format in the buffer protocol and appear there as bytes; DLPack "
      "has them.")
      .def("__dlpack__", dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); })
      .def_prop_ro("dtype",
                   [](const Array& self) { return to_str(name(self.view()->spec().dtype)); })
      .def_prop_ro("shape", [](const Array& self) { return to_tuple(self.view()->spec().shape); })
      .def_prop_ro("nbytes", [](const Array& self) { return self.view()->bytes(); })
      .def_prop_ro(
          "address",
          [](const Array& self) { return reinterpret_cast<std::uintptr_t>(self.view()->data()); })
      .def_prop_ro("readonly", [](const Array& self) { return !self.view()->writable(); })
      .def("__repr__", repr);
}

}  // namespace sluice::python
