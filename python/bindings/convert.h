// convert.h: between Python's values and those of the public headers. Refusals name the argument
// and what it may be.
//
// Threads: with the GIL.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>

#include <sluice/client.h>
#include <sluice/tensor.h>

namespace sluice::python {

namespace nb = nanobind;

nb::str to_str(std::string_view text);
nb::tuple to_tuple(std::span<const std::int64_t> shape);

// Seconds to milliseconds, rounded up. Refuses negative, NaN, infinite and more than ten minutes:
// every wait has an end.
std::chrono::milliseconds to_timeout(double seconds, std::string_view what);
// Seconds that an object is to be kept; positive and finite.
std::chrono::milliseconds to_lifetime(double seconds, std::string_view what);

Verify to_verify(std::string_view text);  // "once", "always" or "never"

// A sequence of non-negative integers.
std::vector<std::int64_t> to_shape(nb::handle shape);
TensorSpec to_spec(std::string_view name, std::string_view dtype, nb::handle shape);

// None, or a mapping of str to str, int, float, or a sequence of int or float.
Attributes to_attributes(nb::handle mapping);
nb::dict to_dict(const Attributes& attributes);

// What Python sees of one tensor of an object.
struct TensorInfo {
  TensorView view;
};
nb::list to_infos(const std::vector<TensorView>& tensors);
// The tensor called `name`; without a name the only one. Refuses an unknown name and lists the
// known ones.
std::size_t find_tensor(const std::vector<TensorView>& tensors,
                        std::optional<std::string_view> name);

}  // namespace sluice::python
