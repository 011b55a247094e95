#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <sluice/client.h>

#include "base/limits.h"
#include "bindings.h"
#include "convert.h"
#include "lease.h"
#include "no_gil.h"
#include "raise.h"
#include "seeing.h"
#include "source_bytes.h"
#include "store/daemon.h"
#include "view.h"
#include "writer.h"

namespace sluice::python {
namespace {

// A batch so large that looking it up without giving the GIL up would be felt by other threads.
constexpr std::size_t kLookupsWithGil = 64;
// Python handles signals between two waits of this length.
constexpr std::chrono::milliseconds kWaitSlice{100};

struct ClientHandle {
  std::unique_ptr<Client> client;
  Verify verify = Verify::kOnce;
};

// What only looks has no way to refuse in C++: a closed client, or one of the parent of a fork,
// would look empty.
const Client& reading(const ClientHandle& self) {
  if (self.client->boot() == 0) {
    raise({Code::kDetached, Drop::kProcess,
           "this client was closed, or belongs to the parent of a fork; connect anew in this "
           "process"});
  }
  return *self.client;
}

ClientHandle attach(std::string arena, std::string directory, std::string label, double timeout,
                    std::string_view verify, std::uint64_t grant_ahead_bytes) {
  const ClientOptions options{.arena = std::move(arena),
                              .directory = std::move(directory),
                              .label = std::move(label),
                              .attach_timeout = to_timeout(timeout, "timeout"),
                              .verify = to_verify(verify),
                              .grant_ahead_bytes = grant_ahead_bytes};
  Result<std::unique_ptr<Client>> client;
  {
    const NoGil no_gil;
    client = Client::attach(options);
  }
  return {value_of(std::move(client)), options.verify};
}

std::vector<ObjectKey> to_keys(nb::handle sequence) {
  std::vector<ObjectKey> out;
  for (nb::handle key : nb::borrow<nb::sequence>(sequence))
    out.push_back(nb::cast<const ObjectKey&>(key));
  return out;
}

nb::list to_words(const std::vector<Presence>& presences) {
  nb::list out;
  for (const Presence presence : presences) out.append(to_str(sluice::name(presence)));
  return out;
}

nb::list lookup_many(const ClientHandle& self, nb::handle sequence) {
  const auto keys = to_keys(sequence);
  std::vector<Presence> out(keys.size());
  if (keys.size() <= kLookupsWithGil) {
    reading(self).lookup(keys, out);
  } else {
    const NoGil no_gil;
    reading(self).lookup(keys, out);
  }
  return to_words(out);
}

// Acquire is wait-free and keeps the GIL; only verification, which reads every byte, gives it up.
std::shared_ptr<LeaseMemory> get(const ClientHandle& self, const ObjectKey& key,
                                 std::optional<std::string_view> verify) {
  auto memory = std::make_shared<LeaseMemory>(value_of(self.client->get(key, Verify::kNever)));
  if (Status checked = verify_lease(memory, verify ? to_verify(*verify) : self.verify); !checked) {
    checked.error().message = key.text() + ": " + checked.error().message;
    raise(std::move(checked.error()));
  }
  return memory;
}

nb::object get_dlpack(const ClientHandle& self, const ObjectKey& key,
                      std::optional<std::string_view> name,
                      std::optional<std::string_view> verify) {
  return to_dlpack(view_of(get(self, key, verify), name, false), false);
}

nb::list wait(const ClientHandle& self, nb::handle sequence, double timeout) {
  const auto keys = to_keys(sequence);
  const Instant deadline = deadline_after(now(), to_timeout(timeout, "timeout"));
  for (;;) {
    Result<std::vector<Presence>> presences;
    const Instant start = now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::nanoseconds(deadline > start ? deadline - start : 0));
    {
      const NoGil no_gil;
      presences = self.client->wait(keys, std::min(left, kWaitSlice));
    }
    const auto out = value_of(std::move(presences));
    const bool all =
        std::ranges::all_of(out, [](Presence presence) { return presence == Presence::kPresent; });
    if (all || left <= kWaitSlice) return to_words(out);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

PutOptions to_options(double timeout, bool checksums, std::optional<double> soft_pin,
                      bool hard_pin) {
  PutOptions options;
  options.timeout = to_timeout(timeout, "timeout");
  options.checksums = checksums;
  options.hard_pin = hard_pin;
  if (soft_pin) options.soft_pin = to_lifetime(*soft_pin, "soft_pin");
  return options;
}

struct Inputs {
  std::vector<SourceBytes> sources;
  std::vector<TensorInput> tensors;
};

// (name, dtype, shape, source) each.
Inputs to_inputs(nb::handle sequence) {
  Inputs out;
  for (nb::handle item : nb::borrow<nb::sequence>(sequence)) {
    const auto fields = nb::cast<nb::tuple>(item);
    if (fields.size() != 4)
      raise_invalid("a tensor to put is (name, dtype, shape, buffer or address)");
    TensorInput input;
    input.name = nb::cast<std::string>(fields[0]);
    input.spec = to_spec(input.name, nb::cast<std::string>(fields[1]), fields[2]);
    const std::uint64_t bytes = value_of(byte_size(input.spec));
    input.data = out.sources.emplace_back(fields[3], bytes, input.name).bytes();
    out.tensors.push_back(std::move(input));
  }
  return out;
}

nb::str put(ClientHandle& self, const ObjectKey& key, nb::handle tensors, nb::handle attributes,
            double timeout, bool checksums, std::optional<double> soft_pin, bool hard_pin) {
  const Inputs inputs = to_inputs(tensors);
  const Attributes converted = to_attributes(attributes);
  const PutOptions options = to_options(timeout, checksums, soft_pin, hard_pin);
  Result<PutOutcome> outcome;
  {
    const NoGil no_gil;
    outcome = self.client->put(key, inputs.tensors, converted, options);
  }
  return to_str(sluice::name(value_of(std::move(outcome))));
}

// (name, dtype, shape) each.
std::vector<NamedTensorSpec> to_specs(nb::handle sequence) {
  std::vector<NamedTensorSpec> out;
  for (nb::handle item : nb::borrow<nb::sequence>(sequence)) {
    const auto fields = nb::cast<nb::tuple>(item);
    if (fields.size() != 3) raise_invalid("a tensor to reserve is (name, dtype, shape)");
    auto name = nb::cast<std::string>(fields[0]);
    auto spec = to_spec(name, nb::cast<std::string>(fields[1]), fields[2]);
    out.push_back({std::move(name), std::move(spec)});
  }
  return out;
}

std::optional<WriterHandle> reserve(ClientHandle& self, const ObjectKey& key, nb::handle specs,
                                    nb::handle attributes, double timeout, double write_timeout,
                                    bool checksums, std::optional<double> soft_pin, bool hard_pin) {
  const auto named = to_specs(specs);
  const Attributes converted = to_attributes(attributes);
  PutOptions options = to_options(timeout, checksums, soft_pin, hard_pin);
  options.write_timeout = to_timeout(write_timeout, "write_timeout");
  Result<Writer> writer;
  {
    const NoGil no_gil;
    writer = self.client->reserve(key, named, converted, options);
  }
  auto opened = value_of(std::move(writer));
  if (!opened) return std::nullopt;  // the same object is there
  return WriterHandle(std::move(opened));
}

// Runs a request to the daemon without the GIL.
template <class Request>
auto request(const Request& send) {
  decltype(send()) result;
  {
    const NoGil no_gil;
    result = send();
  }
  return value_of(std::move(result));
}

void bind_reading(nb::class_<ClientHandle>& type) {
  type.def(
          "lookup",
          [](const ClientHandle& self, const ObjectKey& key) {
            return to_str(sluice::name(reading(self).lookup(key)));
          },
          nb::arg("key"))
      .def("lookup_many", lookup_many, nb::arg("keys"))
      .def(
          "acquire",
          [](const ClientHandle& self, const ObjectKey& key) {
            return LeaseHandle{std::make_shared<LeaseMemory>(value_of(self.client->acquire(key)))};
          },
          nb::arg("key"))
      .def(
          "get",
          [](const ClientHandle& self, const ObjectKey& key,
             std::optional<std::string_view> verify) {
            return LeaseHandle{get(self, key, verify)};
          },
          nb::arg("key"), nb::arg("verify") = nb::none())
      .def("get_dlpack", get_dlpack, nb::arg("key"), nb::arg("name") = nb::none(),
           nb::arg("verify") = nb::none())
      .def(
          "adopt",
          [](const ClientHandle& self, const Descriptor& descriptor) {
            return LeaseHandle{
                std::make_shared<LeaseMemory>(value_of(self.client->adopt(descriptor)))};
          },
          nb::arg("descriptor"))
      .def("wait", wait, nb::arg("keys"), nb::arg("timeout"));
}

void bind_writing(nb::class_<ClientHandle>& type) {
  type.def("put", put, nb::arg("key"), nb::arg("tensors"), nb::arg("attributes") = nb::none(),
           nb::kw_only(), nb::arg("timeout") = 5.0, nb::arg("checksums") = true,
           nb::arg("soft_pin") = nb::none(), nb::arg("hard_pin") = false)
      .def("reserve", reserve, nb::arg("key"), nb::arg("specs"), nb::arg("attributes") = nb::none(),
           nb::kw_only(), nb::arg("timeout") = 5.0, nb::arg("write_timeout") = 60.0,
           nb::arg("checksums") = true, nb::arg("soft_pin") = nb::none(),
           nb::arg("hard_pin") = false)
      .def(
          "remove",
          [](ClientHandle& self, const ObjectKey& key, double timeout) {
            const auto limit = to_timeout(timeout, "timeout");
            request([&] { return self.client->remove(key, limit); });
          },
          nb::arg("key"), nb::arg("timeout") = 5.0)
      .def(
          "invalidate",
          [](ClientHandle& self, std::string_view prefix, double timeout) {
            const auto limit = to_timeout(timeout, "timeout");
            return request([&] { return self.client->invalidate(prefix, limit); });
          },
          nb::arg("prefix"), nb::arg("timeout") = 5.0)
      .def(
          "pin",
          [](ClientHandle& self, const ObjectKey& key, std::optional<double> soft_ttl) {
            std::optional<std::chrono::milliseconds> ttl;
            if (soft_ttl) ttl = to_lifetime(*soft_ttl, "soft_ttl");
            request([&] { return self.client->pin(key, ttl); });
          },
          nb::arg("key"), nb::arg("soft_ttl") = nb::none())
      .def(
          "unpin",
          [](ClientHandle& self, const ObjectKey& key) {
            request([&] { return self.client->unpin(key); });
          },
          nb::arg("key"))
      .def(
          "post",
          [](ClientHandle& self, std::string_view text) {
            request([&] { return self.client->post(text); });
          },
          nb::arg("text"));
}

void bind_seeing(nb::class_<ClientHandle>& type) {
  type.def(
          "list",
          [](const ClientHandle& self, std::string_view prefix, std::size_t limit) {
            const Client& client = reading(self);
            std::vector<ObjectInfo> objects;
            {
              const NoGil no_gil;
              objects = client.list(prefix, limit == 0 ? SIZE_MAX : limit);
            }
            return to_list(objects);
          },
          nb::arg("prefix") = "", nb::arg("limit") = 0)
      .def("stats", [](const ClientHandle& self) { return to_dict(reading(self).stats()); })
      .def("clients", [](const ClientHandle& self) { return to_list(reading(self).clients()); });
}

}  // namespace

void bind_client(nb::module_& module) {
  auto type = nb::class_<ClientHandle>(module, "Client",
                                       "One attachment of this process to an arena. Any thread.");
  type.def_static("attach", attach, nb::arg("arena") = "default", nb::kw_only(),
                  nb::arg("directory") = "", nb::arg("label") = "", nb::arg("timeout") = 2.0,
                  nb::arg("verify") = "once",
                  nb::arg("grant_ahead_bytes") = std::uint64_t{64} << 20)
      .def_prop_ro("attached", [](const ClientHandle& self) { return self.client->attached(); })
      .def_prop_ro("boot", [](const ClientHandle& self) { return self.client->boot(); })
      .def_prop_ro("id", [](const ClientHandle& self) { return self.client->id(); })
      .def_prop_ro("directory",
                   [](const ClientHandle& self) { return to_str(self.client->directory()); })
      .def("close",
           [](ClientHandle& self) {
             const NoGil no_gil;
             self.client->close();
           })
      .def(
          "reattach",
          [](ClientHandle& self, double timeout) {
            const auto limit = to_timeout(timeout, "timeout");
            request([&] { return self.client->reattach(limit); });
          },
          nb::arg("timeout") = 2.0)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__",
           [](ClientHandle& self, const nb::args&) {
             const NoGil no_gil;
             self.client->close();
           })
      .def("__repr__", [](const ClientHandle& self) {
        return nb::str("<sluice._core.Client {} {}>")
            .format(to_str(self.client->directory()),
                    self.client->attached() ? "attached" : "detached");
      });
  bind_reading(type);
  bind_writing(type);
  bind_seeing(type);
  module.def(
      "default_directory",
      [](std::string_view arena) { return value_of(store::default_directory(arena)); },
      nb::arg("arena") = "default", "The folder of an arena known by name.");
}

}  // namespace sluice::python
