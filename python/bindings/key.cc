#include <functional>
#include <string>

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <sluice/object_key.h>

#include "bindings.h"
#include "convert.h"
#include "raise.h"

namespace sluice::python {
namespace {

ObjectKind to_kind(std::string_view text) {
  std::string known;
  for (const ObjectKind kind :
       {ObjectKind::kEncoderOutput, ObjectKind::kPrefixFragment, ObjectKind::kStageOutput,
        ObjectKind::kKvHandoff, ObjectKind::kKvPage}) {
    if (name(kind) == text) return kind;
    known += (known.empty() ? "'" : ", '") + std::string(name(kind)) + "'";
  }
  raise_invalid("kind is '" + std::string(text) + "'; it may be " + known);
}

ObjectKey make(std::string id, std::string model, std::string revision, std::string encoder,
               std::string dtype, std::string prefix, std::string tenant, std::string_view kind,
               std::string layout, std::string parallel) {
  return value_of(ObjectKey::make({.prefix = std::move(prefix),
                                   .tenant = std::move(tenant),
                                   .kind = to_kind(kind),
                                   .model = std::move(model),
                                   .revision = std::move(revision),
                                   .encoder = std::move(encoder),
                                   .dtype = std::move(dtype),
                                   .layout = std::move(layout),
                                   .parallel = std::move(parallel),
                                   .id = std::move(id)}));
}

nb::dict to_dict(const KeyFields& fields) {
  nb::dict out;
  out["prefix"] = to_str(fields.prefix);
  out["tenant"] = to_str(fields.tenant);
  out["kind"] = to_str(name(fields.kind));
  out["model"] = to_str(fields.model);
  out["revision"] = to_str(fields.revision);
  out["encoder"] = to_str(fields.encoder);
  out["dtype"] = to_str(fields.dtype);
  out["layout"] = to_str(fields.layout);
  out["parallel"] = to_str(fields.parallel);
  out["id"] = to_str(fields.id);
  return out;
}

}  // namespace

void bind_key(nb::module_& module) {
  nb::class_<ObjectKey>(
      module, "ObjectKey",
      "The full name of an object: model, revision, dtype, processor, tenant and content.\n\n"
      "Immutable, hashable, valid by construction. Raises InvalidArgument naming the field that is "
      "wrong. Any thread.")
      .def(
          "__init__",
          [](ObjectKey* self, std::string id, std::string model, std::string revision,
             std::string encoder, std::string dtype, std::string prefix, std::string tenant,
             std::string_view kind, std::string layout, std::string parallel) {
            new (self)
                ObjectKey(make(std::move(id), std::move(model), std::move(revision),
                               std::move(encoder), std::move(dtype), std::move(prefix),
                               std::move(tenant), kind, std::move(layout), std::move(parallel)));
          },
          nb::arg("id"), nb::kw_only(), nb::arg("model"), nb::arg("revision"), nb::arg("encoder"),
          nb::arg("dtype"), nb::arg("prefix") = "", nb::arg("tenant") = "default",
          nb::arg("kind") = "encoder_output", nb::arg("layout") = "replicated",
          nb::arg("parallel") = "")
      .def_static(
          "parse", [](std::string_view text) { return value_of(ObjectKey::parse(text)); },
          nb::arg("text"))
      .def_static(
          "from_text", [](std::string_view text) { return value_of(ObjectKey::from_text(text)); },
          nb::arg("text_or_name"))
      .def(
          "with_id",
          [](const ObjectKey& self, std::string_view id) { return value_of(self.with_id(id)); },
          nb::arg("id"))
      .def_prop_ro("text", [](const ObjectKey& self) { return to_str(self.text()); })
      .def_prop_ro("prefix_text", [](const ObjectKey& self) { return to_str(self.prefix_text()); })
      .def_prop_ro("id", [](const ObjectKey& self) { return to_str(self.fields().id); })
      .def_prop_ro("fields", [](const ObjectKey& self) { return to_dict(self.fields()); })
      .def("__str__", [](const ObjectKey& self) { return to_str(self.text()); })
      .def("__repr__",
           [](const ObjectKey& self) {
             return nb::str("ObjectKey.parse({!r})").format(to_str(self.text()));
           })
      .def("__hash__", [](const ObjectKey& self) { return std::hash<std::string>{}(self.text()); })
      .def(
          "__eq__",
          [](const ObjectKey& self, nb::handle other) {
            return nb::isinstance<ObjectKey>(other) && self == nb::cast<const ObjectKey&>(other);
          },
          nb::arg("other").none())
      .def("__getstate__", [](const ObjectKey& self) { return to_str(self.text()); })
      .def("__setstate__", [](ObjectKey& self, std::string_view text) {
        new (&self) ObjectKey(value_of(ObjectKey::parse(text)));
      });
}

}  // namespace sluice::python
