// array.h: the Python class that offers one View through DLPack and the buffer protocol.
#pragma once

#include <array>
#include <memory>

#include "view.h"

namespace sluice::python {

class Array {
 public:
  explicit Array(std::shared_ptr<View> view);

  const std::shared_ptr<View>& view() const noexcept { return view_; }
  // The layout that the buffer protocol shows: bfloat16 and float8 have no format there and appear
  // as plain bytes.
  bool has_format() const noexcept { return format_ != nullptr; }
  int fill(PyObject* self, Py_buffer* buffer, int flags) noexcept;

 private:
  std::shared_ptr<View> view_;  // shared with exports that may outlive this object
  const char* format_;
  std::array<Py_ssize_t, kDimsMax> shape_{};
  std::array<Py_ssize_t, kDimsMax> strides_{};
  int dims_ = 0;
  Py_ssize_t item_bytes_ = 1;
};

}  // namespace sluice::python
