#include <array>
#include <exception>
#include <string>

#include "bindings.h"
#include "convert.h"
#include "raise.h"

namespace sluice::python {
namespace {

constexpr std::size_t kCodes = static_cast<std::size_t>(Code::kInternal) + 1;

struct TypeSpec {
  Code code;
  const char* name;  // in the package, also for repr() and pickle
  PyObject** also;   // the standard exception that callers may catch instead, or null
  const char* doc;
};

const std::array<TypeSpec, kCodes> kTypes{{
    {Code::kInvalidArgument, "InvalidArgument", &PyExc_ValueError,
     "The caller's input is wrong; the same call will fail again."},
    {Code::kNotFound, "NotFound", &PyExc_KeyError, "No published object has this key."},
    {Code::kPending, "Pending", nullptr,
     "A live writer holds a reservation for this key; wait for it."},
    {Code::kConflict, "Conflict", nullptr,
     "Another object with this key differs in shape or dtype."},
    {Code::kOutOfSpace, "OutOfSpace", nullptr, "Nothing evictable was left until the deadline."},
    {Code::kTimedOut, "TimedOut", &PyExc_TimeoutError, "The deadline passed without an answer."},
    {Code::kUnavailable, "Unavailable", &PyExc_ConnectionError, "No daemon serves this arena now."},
    {Code::kDetached, "Detached", nullptr,
     "The handle was closed, or belongs to the parent of a fork; connect anew."},
    {Code::kCorrupt, "Corrupt", nullptr, "Bytes do not match their checksum or their header."},
    {Code::kExpired, "Expired", nullptr,
     "The reservation's deadline passed before it was published."},
    {Code::kLimit, "Limit", nullptr,
     "A limit of Sluice or of the daemon's configuration is reached."},
    {Code::kPermission, "PermissionDenied", &PyExc_PermissionError, "Access was refused."},
    {Code::kVersion, "VersionMismatch", nullptr, "The other side speaks another version."},
    {Code::kUnsupported, "Unsupported", &PyExc_NotImplementedError, "Reserved, not built yet."},
    {Code::kIo, "SystemFailure", &PyExc_OSError,
     "A call to the operating system or a device failed."},
    {Code::kInternal, "InternalError", nullptr, "A bug in Sluice; please report it."},
}};

// Borrowed from the module's attributes, which live as long as code that can raise them.
struct Types {
  std::array<PyObject*, kCodes> by_code{};
};

nb::object new_type(const std::string& name, const char* doc, nb::handle bases, nb::handle dict) {
  PyObject* type =
      PyErr_NewExceptionWithDoc(("sluice." + name).c_str(), doc, bases.ptr(), dict.ptr());
  if (type == nullptr) throw nb::python_error();
  return nb::steal(type);
}

void set_python_error(const Types& types, const Error& error) {
  const auto code = static_cast<std::size_t>(error.code);
  nb::handle type = types.by_code[code < kCodes ? code : kCodes - 1];
  nb::object instance = type(to_str(error.message));
  instance.attr("drop") = to_str(name(error.drop));
  PyErr_SetObject(type.ptr(), instance.ptr());
}

void translate(const std::exception_ptr& pointer, void* payload) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Raised& raised) {
    set_python_error(*static_cast<const Types*>(payload), raised.error());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::dict common;
  common["code"] = to_str(name(Code::kInternal));
  common["drop"] = to_str(name(Drop::kNothing));
  // KeyError would show the repr of its message; every Sluice error shows the sentence itself.
  common["__str__"] = nb::borrow(PyExc_Exception).attr("__str__");
  const nb::object base = new_type(
      "Error",
      "Base of all Sluice errors.\n\n`code` says what happened, `drop` what the caller has to "
      "give up: 'nothing', 'object', 'transfer', 'peer', 'segment' or 'process'.",
      nb::handle(PyExc_Exception), common);
  module.attr("Error") = base;

  // Never freed: the translator may run until the process ends.
  auto* types = new Types;
  for (const TypeSpec& spec : kTypes) {
    nb::dict dict;
    dict["code"] = to_str(name(spec.code));
    const nb::tuple bases =
        spec.also == nullptr ? nb::make_tuple(base) : nb::make_tuple(base, nb::handle(*spec.also));
    const nb::object type = new_type(spec.name, spec.doc, bases, dict);
    module.attr(spec.name) = type;
    types->by_code[static_cast<std::size_t>(spec.code)] = type.ptr();
  }
  nb::register_exception_translator(translate, types);
}

}  // namespace sluice::python
