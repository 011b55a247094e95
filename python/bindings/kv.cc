
#include <string>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bindings.h"
#include "convert.h"
#include "kv/descriptor.h"
#include "kv/handoff.h"
#include "kv/handoff_key.h"
#include "raise.h"

namespace sluice::python {
namespace {

void bind_keys(nb::module_& module) {
  nb::class_<kv::HandoffKeys>(module, "KvKeys", "The keys of one hand-off.")
      .def(
          "__init__",
          [](kv::HandoffKeys* self, std::string_view tenant, std::string_view handoff) {
            new (self) kv::HandoffKeys(value_of(kv::HandoffKeys::make(tenant, handoff)));
          },
          nb::arg("tenant"), nb::arg("handoff"))
      .def_static("is_handoff_id", kv::is_handoff_id, nb::arg("text"))
      .def_prop_ro("prefix", [](const kv::HandoffKeys& self) { return to_str(self.prefix()); })
      .def("prefix_of", &kv::HandoffKeys::prefix_of, nb::arg("generation"), nb::arg("rank"))
      .def(
          "part",
          [](const kv::HandoffKeys& self, std::uint32_t generation, std::uint32_t rank,
             std::uint32_t sequence) {
            return self.part({.generation = generation, .rank = rank, .sequence = sequence});
          },
          nb::arg("generation"), nb::arg("rank"), nb::arg("sequence"))
      .def("commit", &kv::HandoffKeys::commit, nb::arg("generation"), nb::arg("rank"));
}

// One argument for each field, in the order of the header.
void make_descriptor(kv::Descriptor* self, std::string engine, std::string model,
                     std::string revision, std::string dtype, std::string layout,
                     std::string digest, std::uint64_t tokens, std::uint32_t layers,
                     std::uint32_t heads_total, std::uint32_t planes, std::uint32_t block_tokens,
                     std::uint64_t entry_bytes, std::uint32_t rank, std::uint32_t ranks,
                     std::uint32_t parts) {
  new (self) kv::Descriptor{.engine = std::move(engine),
                            .model = std::move(model),
                            .revision = std::move(revision),
                            .dtype = std::move(dtype),
                            .layout = std::move(layout),
                            .digest = std::move(digest),
                            .tokens = tokens,
                            .layers = layers,
                            .heads_total = heads_total,
                            .planes = planes,
                            .block_tokens = block_tokens,
                            .entry_bytes = entry_bytes,
                            .rank = rank,
                            .ranks = ranks,
                            .parts = parts};
}

nb::bytes encode(const kv::Descriptor& self) {
  const auto bytes = value_of(kv::encode(self));
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

kv::Descriptor parse(const nb::bytes& bytes) {
  return value_of(kv::parse({reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()}));
}

void bind_descriptor(nb::module_& module) {
  nb::class_<kv::Descriptor>(module, "KvDescriptor", "What a hand-off's commit says of itself.")
      .def("__init__", make_descriptor, nb::kw_only(), nb::arg("engine") = "",
           nb::arg("model") = "", nb::arg("revision") = "", nb::arg("dtype") = "",
           nb::arg("layout") = "", nb::arg("digest") = "", nb::arg("tokens") = 0,
           nb::arg("layers") = 0, nb::arg("heads_total") = 0, nb::arg("planes") = 1,
           nb::arg("block_tokens") = 0, nb::arg("entry_bytes") = 0, nb::arg("rank") = 0,
           nb::arg("ranks") = 1, nb::arg("parts") = 0)
      .def_static("parse", parse, nb::arg("data"))
      .def("encode", encode)
      .def(
          "check_same",
          [](const kv::Descriptor& self, const kv::Descriptor& expected) {
            value_of(kv::check_same(self, expected));
          },
          nb::arg("expected"))
      .def_prop_ro("heads",
                   [](const kv::Descriptor& self) { return value_of(kv::shape_of(self)).heads; })
      .def(
          "share",
          [](const kv::Descriptor& self, std::uint32_t rank, std::uint32_t ranks) {
            const auto map = value_of(kv::share_of(self, rank, ranks));
            return nb::make_tuple(map.part_first, map.paged_first, map.count);
          },
          nb::arg("rank"), nb::arg("ranks"))
      .def_ro("tokens", &kv::Descriptor::tokens)
      .def_ro("digest", &kv::Descriptor::digest)
      .def_ro("rank", &kv::Descriptor::rank)
      .def_ro("ranks", &kv::Descriptor::ranks)
      .def_ro("parts", &kv::Descriptor::parts)
      .def(
          "__eq__",
          [](const kv::Descriptor& self, nb::handle other) {
            return nb::isinstance<kv::Descriptor>(other) &&
                   self == nb::cast<const kv::Descriptor&>(other);
          },
          nb::arg("other").none());
}

kv::Event to_event(std::string_view text) {
  for (const kv::Event event :
       {kv::Event::kWrite, kv::Event::kPublished, kv::Event::kFinish, kv::Event::kCommitDone,
        kv::Event::kFail, kv::Event::kCancel, kv::Event::kRelease}) {
    if (kv::name(event) == text) return event;
  }
  raise_invalid("'" + std::string(text) + "' is not an event of a hand-off");
}

// What a step asks for, and the state it leads to.
struct StepHandle {
  kv::Step step;
};

void bind_handoff(nb::module_& module) {
  nb::class_<StepHandle>(module, "KvStep", "The outcome of one event.")
      .def_prop_ro("accepted", [](const StepHandle& self) { return self.step.accepted; })
      .def_prop_ro("publish_commit",
                   [](const StepHandle& self) { return self.step.publish_commit; })
      .def_prop_ro("remove", [](const StepHandle& self) -> nb::object {
        if (!self.step.remove) return nb::none();
        return nb::int_(self.step.remove_generation);
      });
  nb::class_<kv::Handoff>(module, "KvHandoff",
                          "The life of one hand-off on the side that writes it, one rank.")
      .def(nb::init<>())
      .def(
          "advance",
          [](kv::Handoff& self, std::string_view event, std::uint32_t generation) {
            const kv::Step step = kv::advance(self, to_event(event), generation);
            self = step.next;
            return StepHandle{step};
          },
          nb::arg("event"), nb::arg("generation"))
      .def_prop_ro("phase", [](const kv::Handoff& self) { return to_str(kv::name(self.phase)); })
      .def_ro("generation", &kv::Handoff::generation)
      .def_ro("published", &kv::Handoff::published);
}

}  // namespace

void bind_kv(nb::module_& module) {
  bind_keys(module);
  bind_descriptor(module);
  bind_handoff(module);
}

}  // namespace sluice::python
