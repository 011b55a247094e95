#include "convert.h"

#include <cmath>

#include <nanobind/stl/string.h>

#include "base/limits.h"
#include "raise.h"

namespace sluice::python {
namespace {

std::string kind_of(nb::handle value) {
  return nb::cast<std::string>(value.type().attr("__name__"));
}

bool is_text(nb::handle value) {
  return nb::isinstance<nb::str>(value);
}

// Booleans are integers in Python, and never meant as such here.
bool is_integer(nb::handle value) {
  return PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr());
}

std::int64_t to_int64(nb::handle value, std::string_view what) {
  const auto number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const long long out = PyLong_AsLongLong(number.ptr());
  if (out == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    raise_invalid(std::string(what) + " does not fit into 64 bits");
  }
  return out;
}

double to_double(nb::handle value) {
  const double out = PyFloat_AsDouble(value.ptr());
  if (out == -1.0 && PyErr_Occurred()) throw nb::python_error();
  return out;
}

[[noreturn]] void refuse_attribute(const std::string& name, nb::handle value) {
  raise_invalid("attribute '" + name + "' is of type " + kind_of(value) +
                "; attributes are str, int, float, or a sequence of int or of float");
}

AttributeValue to_attribute(const std::string& name, nb::handle value) {
  if (is_text(value)) return nb::cast<std::string>(value);
  if (is_integer(value)) return std::vector{to_int64(value, "attribute '" + name + "'")};
  if (PyFloat_Check(value.ptr())) return std::vector{to_double(value)};
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) refuse_attribute(name, value);

  bool integers = true;
  for (nb::handle item : nb::borrow<nb::sequence>(value)) {
    if (is_integer(item)) continue;
    if (!PyFloat_Check(item.ptr())) refuse_attribute(name, item);
    integers = false;
  }
  if (integers) {
    std::vector<std::int64_t> out;
    for (nb::handle item : nb::borrow<nb::sequence>(value))
      out.push_back(to_int64(item, "attribute '" + name + "'"));
    return out;
  }
  std::vector<double> out;
  for (nb::handle item : nb::borrow<nb::sequence>(value)) out.push_back(to_double(item));
  return out;
}

std::chrono::milliseconds to_ms(double seconds, double seconds_max, std::string_view what) {
  if (!(seconds >= 0) || seconds > seconds_max) {
    raise_invalid(std::string(what) + " is " + nb::cast<std::string>(nb::str(nb::float_(seconds))) +
                  " seconds; it may be 0 to " +
                  std::to_string(static_cast<std::int64_t>(seconds_max)));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

}  // namespace

nb::str to_str(std::string_view text) {
  return nb::str(text.data(), text.size());
}

nb::tuple to_tuple(std::span<const std::int64_t> shape) {
  nb::list out;
  for (const std::int64_t extent : shape) out.append(extent);
  return nb::tuple(out);
}

std::chrono::milliseconds to_timeout(double seconds, std::string_view what) {
  return to_ms(seconds, static_cast<double>(kRequestTimeoutMsMax) / 1000, what);
}

std::chrono::milliseconds to_lifetime(double seconds, std::string_view what) {
  constexpr double kTenYears = 10.0 * 366 * 24 * 3600;
  return to_ms(seconds, kTenYears, what);
}

Verify to_verify(std::string_view text) {
  if (text == "once") return Verify::kOnce;
  if (text == "always") return Verify::kAlways;
  if (text == "never") return Verify::kNever;
  raise_invalid("verify is '" + std::string(text) + "'; it may be 'once', 'always' or 'never'");
}

std::vector<std::int64_t> to_shape(nb::handle shape) {
  if (!PySequence_Check(shape.ptr()) || is_text(shape)) {
    raise_invalid("a shape is of type " + kind_of(shape) + "; it may be a sequence of integers");
  }
  std::vector<std::int64_t> out;
  for (nb::handle extent : nb::borrow<nb::sequence>(shape)) {
    if (!is_integer(extent))
      raise_invalid("a shape contains a " + kind_of(extent) + "; it may contain integers");
    out.push_back(to_int64(extent, "an extent of a shape"));
    if (out.size() > static_cast<std::size_t>(kDimsMax)) {
      raise_invalid("a shape has more than " + std::to_string(kDimsMax) + " dimensions");
    }
  }
  return out;
}

TensorSpec to_spec(std::string_view name, std::string_view dtype, nb::handle shape) {
  TensorSpec spec{value_of(dtype_from_name(dtype)), to_shape(shape)};
  if (value_of(byte_size(spec)) == 0) {
    raise_invalid("tensor '" + std::string(name) +
                  "' has no elements; an object holds at least one byte of each");
  }
  return spec;
}

Attributes to_attributes(nb::handle mapping) {
  Attributes out;
  if (mapping.is_none()) return out;
  if (!PyDict_Check(mapping.ptr()))
    raise_invalid("attributes are of type " + kind_of(mapping) + "; pass a dict");
  for (auto [key, value] : nb::borrow<nb::dict>(mapping)) {
    if (!is_text(key))
      raise_invalid("an attribute's name is of type " + kind_of(key) + "; it may be str");
    auto name = nb::cast<std::string>(key);
    auto converted = to_attribute(name, value);
    out.push_back({std::move(name), std::move(converted)});
  }
  return out;
}

nb::dict to_dict(const Attributes& attributes) {
  nb::dict out;
  for (const Attribute& attribute : attributes) {
    nb::object value;
    if (const auto* text = std::get_if<std::string>(&attribute.value)) {
      value = to_str(*text);
    } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
      nb::list items;
      for (const std::int64_t item : *integers) items.append(item);
      value = items;
    } else {
      nb::list items;
      for (const double item : std::get<std::vector<double>>(attribute.value)) items.append(item);
      value = items;
    }
    out[to_str(attribute.name)] = value;
  }
  return out;
}

nb::list to_infos(const std::vector<TensorView>& tensors) {
  nb::list out;
  for (const TensorView& view : tensors) out.append(nb::cast(TensorInfo{view}));
  return out;
}

std::size_t find_tensor(const std::vector<TensorView>& tensors,
                        std::optional<std::string_view> name) {
  if (!name && tensors.size() == 1) return 0;
  std::string known;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (name && tensors[i].name == *name) return i;
    known += (known.empty() ? "'" : ", '") + tensors[i].name + "'";
  }
  if (!name)
    raise_invalid("the object holds " + std::to_string(tensors.size()) + " tensors; name one of " +
                  known);
  raise_invalid("the object holds no tensor '" + std::string(*name) + "'; it holds " + known);
}

}  // namespace sluice::python
