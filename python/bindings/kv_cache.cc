#include <cstdint>
#include <span>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/checked.h"
#include "bindings.h"
#include "convert.h"
#include "kv/part.h"
#include "lease.h"
#include "no_gil.h"
#include "raise.h"
#include "writer.h"

namespace sluice::python {
namespace {

// (address, bytes, blocks, plane stride, block stride, head stride, token stride)
using LayerTuple = std::tuple<std::uintptr_t, std::uint64_t, std::uint32_t, std::uint64_t,
                              std::uint64_t, std::uint64_t, std::uint64_t>;

struct Cache {
  kv::BlockShape shape;
  std::vector<kv::PagedLayer> layers;
};

Cache cache_of(const std::vector<LayerTuple>& layers, std::uint32_t planes, std::uint32_t heads,
               std::uint32_t block_tokens, std::uint64_t entry_bytes) {
  Cache cache{{planes, heads, block_tokens, entry_bytes}, {}};
  for (const auto& [address, bytes, blocks, plane, block, head, token] : layers) {
    const kv::PagedLayer layer{.base = reinterpret_cast<std::byte*>(address),
                               .bytes = bytes,
                               .blocks = blocks,
                               .plane_stride = plane,
                               .block_stride = block,
                               .head_stride = head,
                               .token_stride = token};
    value_of(kv::check(layer, cache.shape));
    cache.layers.push_back(layer);
  }
  return cache;
}

std::span<const kv::PagedLayer> group_of(const Cache& cache, std::uint32_t first,
                                         std::uint32_t count) {
  if (!fits(first, count, cache.layers.size()))
    raise_invalid("the cache has " + std::to_string(cache.layers.size()) + " layers, not " +
                  std::to_string(count) + " from " + std::to_string(first));
  return std::span(cache.layers).subspan(first, count);
}

void gather(const Cache& self, WriterHandle& writer, std::uint32_t first_layer,
            std::uint32_t layers, const std::vector<std::uint32_t>& block_ids) {
  Writer& open = writer.writer();
  const std::size_t tensor = find_tensor(open.tensors(), std::nullopt);
  const kv::Transfer transfer{.part = self.shape,
                              .paged = self.shape,
                              .layers = group_of(self, first_layer, layers),
                              .block_ids = block_ids,
                              .part_blocks = block_ids.size(),
                              .part_first_block = 0,
                              .heads = {0, 0, self.shape.heads}};
  Status status;
  {
    const NoGil no_gil;
    status = kv::write_part(open, tensor, transfer);
  }
  value_of(std::move(status));
}

void scatter(const Cache& self, const LeaseHandle& lease, std::uint32_t first_layer,
             std::uint32_t layers, const std::vector<std::uint32_t>& block_ids,
             std::uint64_t part_blocks, std::uint64_t part_first_block, std::uint32_t part_heads,
             const std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>& heads,
             std::string_view verify) {
  const Verify mode = to_verify(verify);
  if (lease.memory == nullptr)
    raise({Code::kDetached, Drop::kObject, "this lease has ended; get the object again"});
  const auto tensors = value_of(lease.memory->lease().tensors());
  const TensorView& tensor = tensors[find_tensor(tensors, std::nullopt)];
  kv::BlockShape part = self.shape;
  part.heads = part_heads;
  const kv::Transfer transfer{
      .part = part,
      .paged = self.shape,
      .layers = group_of(self, first_layer, layers),
      .block_ids = block_ids,
      .part_blocks = part_blocks,
      .part_first_block = part_first_block,
      .heads = {std::get<0>(heads), std::get<1>(heads), std::get<2>(heads)}};
  const Pinned::Hold hold(lease.memory);  // keeps the lease while the GIL is away
  Status status;
  {
    const NoGil no_gil;
    status = kv::read_part(lease.memory->lease(), tensor, transfer, mode);
  }
  value_of(std::move(status));
}

}  // namespace

void bind_kv_cache(nb::module_& module) {
  nb::class_<Cache>(module, "KvCache", "An engine's paged cache, by address.")
      .def(
          "__init__",
          [](Cache* self, const std::vector<LayerTuple>& layers, std::uint32_t planes,
             std::uint32_t heads, std::uint32_t block_tokens, std::uint64_t entry_bytes) {
            new (self) Cache(cache_of(layers, planes, heads, block_tokens, entry_bytes));
          },
          nb::arg("layers"), nb::kw_only(), nb::arg("planes"), nb::arg("heads"),
          nb::arg("block_tokens"), nb::arg("entry_bytes"))
      .def_prop_ro("layers", [](const Cache& self) { return self.layers.size(); })
      .def(
          "part_shape",
          [](const Cache& self, std::uint32_t layers, std::uint64_t blocks) {
            return nb::make_tuple(layers, self.shape.planes, blocks, self.shape.heads,
                                  self.shape.block_tokens, self.shape.entry_bytes);
          },
          nb::arg("layers"), nb::arg("blocks"))
      .def("gather", gather, nb::arg("writer"), nb::kw_only(), nb::arg("first_layer"),
           nb::arg("layers"), nb::arg("block_ids"))
      .def("scatter", scatter, nb::arg("lease"), nb::kw_only(), nb::arg("first_layer"),
           nb::arg("layers"), nb::arg("block_ids"), nb::arg("part_blocks"),
           nb::arg("part_first_block"), nb::arg("part_heads"), nb::arg("heads"),
           nb::arg("verify") = "once");
}

}  // namespace sluice::python
