// The DLPack exchange format, version 1.1: dmlc.github.io/dlpack. nanobind has the tensor, the
// managed tensors are here.
#include <algorithm>
#include <type_traits>

#include <nanobind/ndarray.h>

#include "view.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;
namespace dl = nanobind::dlpack;

constexpr std::int32_t kDeviceCpu = 1;
constexpr std::uint64_t kFlagReadOnly = 1;
constexpr const char* kPlain = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

// DLManagedTensor
struct PlainManaged {
  static constexpr const char* kName = kPlain;
  dl::dltensor tensor;
  void* context = nullptr;
  void (*deleter)(PlainManaged*) = nullptr;
};

// DLManagedTensorVersioned
struct VersionedManaged {
  static constexpr const char* kName = kVersioned;
  std::uint32_t major = 1;
  std::uint32_t minor = 1;
  void* context = nullptr;
  void (*deleter)(VersionedManaged*) = nullptr;
  std::uint64_t flags = 0;
  dl::dltensor tensor;
};

template <class Managed>
struct Exported {
  Managed managed;
  Extents shape{};
  Extents strides{};
  std::shared_ptr<View> view;
};

dl::dtype to_dl(DType dtype) noexcept {
  const auto make = [dtype](dl::dtype_code code) {
    return dl::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(size_of(dtype) * 8),
                     1};
  };
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
      return make(dl::dtype_code::Float);
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return make(dl::dtype_code::Int);
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return make(dl::dtype_code::UInt);
    case DType::kBool:
      return make(dl::dtype_code::Bool);
    case DType::kBF16:
      return make(dl::dtype_code::Bfloat);
    case DType::kF8E4M3:
      return make(dl::dtype_code::Float8_E4M3FN);
    case DType::kF8E5M2:
      return make(dl::dtype_code::Float8_E5M2);
  }
  return {};
}

// A capsule that nobody consumed still owns its tensor; a consumer renames it.
template <class Managed>
void end_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Managed::kName)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  managed->deleter(managed);
}

template <class Managed>
nb::object export_as(std::shared_ptr<View> view) {
  const TensorSpec& spec = view->spec();
  auto exported = std::make_unique<Exported<Managed>>();
  std::ranges::copy(spec.shape, exported->shape.begin());
  exported->strides = contiguous_strides(spec, 1);

  Managed& managed = exported->managed;
  managed.tensor.data = view->data();
  managed.tensor.device = {kDeviceCpu, 0};
  managed.tensor.ndim = static_cast<std::int32_t>(spec.shape.size());
  managed.tensor.dtype = to_dl(spec.dtype);
  managed.tensor.shape = exported->shape.data();
  managed.tensor.strides = exported->strides.data();
  managed.context = exported.get();
  managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->context); };
  if constexpr (std::is_same_v<Managed, VersionedManaged>) {
    managed.flags = view->writable() ? 0 : kFlagReadOnly;
  }
  exported->view = std::move(view);

  PyObject* capsule = PyCapsule_New(&managed, Managed::kName, end_capsule<Managed>);
  if (capsule == nullptr) throw nb::python_error();
  exported.release();  // the capsule owns it now
  return nb::steal(capsule);
}

}  // namespace

Extents contiguous_strides(const TensorSpec& spec, std::int64_t unit) noexcept {
  Extents strides{};
  std::int64_t step = unit;
  for (std::size_t i = spec.shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= spec.shape[i];
  }
  return strides;
}

nb::object to_dlpack(std::shared_ptr<View> view, bool versioned) {
  return versioned ? export_as<VersionedManaged>(std::move(view))
                   : export_as<PlainManaged>(std::move(view));
}

}  // namespace sluice::python
