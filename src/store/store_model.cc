#include "store/store_model.h"

#include <algorithm>
#include <array>
#include <random>

#include <fmt/format.h>

#include "store/model_world.h"

namespace sluice::store {
namespace {

constexpr std::array<const char*, kOpKinds> kNames{
    "kGrant",   "kReserve", "kPublish",  "kAbandon", "kRemove",  "kInvalidate", "kPin",
    "kAcquire", "kRelease", "kPassTime", "kDie",     "kRestart", "kGarbage"};

}  // namespace

std::vector<ModelOp> random_ops(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  // How often each kind comes.
  std::discrete_distribution<int> kinds{10, 8, 20, 3, 4, 1, 3, 10, 6, 4, 1, 2, 3};
  std::vector<ModelOp> ops(count);
  for (ModelOp& op : ops) {
    op = {.kind = static_cast<OpKind>(kinds(random)),
          .client = static_cast<std::uint32_t>(random()),
          .a = static_cast<std::uint32_t>(random()),
          .b = static_cast<std::uint32_t>(random())};
  }
  return ops;
}

std::string describe(const std::vector<ModelOp>& ops) {
  std::string text;
  for (const ModelOp& op : ops) {
    text += fmt::format("    {{OpKind::{}, {}, {}u, {}u}},\n",
                        kNames[static_cast<std::size_t>(op.kind)], op.client % model::kHostile,
                        op.a, op.b);
  }
  return text;
}

std::optional<std::string> run_ops(const std::vector<ModelOp>& ops, Fault fault) {
  model::World world(fault);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (auto failure = world.step(ops[i])) return fmt::format("step {}: {}", i, *failure);
  }
  return std::nullopt;
}

std::vector<ModelOp> shrink(std::vector<ModelOp> ops, Fault fault) {
  for (std::size_t chunk = std::max<std::size_t>(ops.size() / 2, 1);;
       chunk = std::max<std::size_t>(chunk / 2, 1)) {
    bool smaller = false;
    for (std::size_t at = 0; at < ops.size();) {
      std::vector<ModelOp> fewer = ops;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(std::min(at + chunk, fewer.size())));
      if (run_ops(fewer, fault)) {
        ops = std::move(fewer);
        smaller = true;
      } else {
        at += chunk;
      }
    }
    if (chunk == 1 && !smaller) return ops;
  }
}

}  // namespace sluice::store
