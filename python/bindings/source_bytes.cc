#include "source_bytes.h"

#include <string>
#include <utility>

#include "raise.h"

namespace sluice::python {

namespace nb = nanobind;

SourceBytes::SourceBytes(nb::handle source, std::uint64_t bytes, std::string_view name) {
  if (PyLong_Check(source.ptr())) {
    const std::size_t address = PyLong_AsSize_t(source.ptr());
    if (PyErr_Occurred()) throw nb::python_error();
    if (address == 0) raise_invalid("the address of tensor '" + std::string(name) + "' is zero");
    bytes_ = {reinterpret_cast<const std::byte*>(address), bytes};
    return;
  }
  if (PyObject_GetBuffer(source.ptr(), &buffer_, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  if (static_cast<std::uint64_t>(buffer_.len) != bytes) {
    const auto length = buffer_.len;
    PyBuffer_Release(&buffer_);
    raise_invalid("tensor '" + std::string(name) + "' has " + std::to_string(length) +
                  " bytes; its dtype and shape ask for " + std::to_string(bytes));
  }
  bytes_ = {static_cast<const std::byte*>(buffer_.buf), bytes};
}

SourceBytes::SourceBytes(SourceBytes&& other) noexcept
    : buffer_(std::exchange(other.buffer_, Py_buffer{})), bytes_(std::exchange(other.bytes_, {})) {}

SourceBytes::~SourceBytes() {
  PyBuffer_Release(&buffer_);
}

}  // namespace sluice::python
