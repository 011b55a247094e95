// store_model.h: ObjectStore driven without sockets, and the naive model that says what it must
// have done. Tests only.
//
// Client kHostile writes garbage into its page; the others behave. After every step the whole arena
// is compared with the model (model_world.h).
// Invariant: the same operations give the same run. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::store {

enum class OpKind : std::uint8_t {
  kGrant,
  kReserve,
  kPublish,
  kAbandon,
  kRemove,
  kInvalidate,
  kPin,
  kAcquire,
  kRelease,
  kPassTime,
  kDie,
  kRestart,
  kGarbage,
};
inline constexpr std::uint32_t kOpKinds = 13;

// Numbers are taken modulo what there is, so that a list stays meaningful when some of its
// operations are left out.
struct ModelOp {
  OpKind kind = OpKind::kGrant;
  std::uint32_t client = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

std::vector<ModelOp> random_ops(std::uint64_t seed, std::size_t count);
std::string describe(const std::vector<ModelOp>& ops);

enum class Fault : std::uint8_t {
  kNone,
  kLeasesAreNotPublished,  // readers forget to store their lease: the model must notice reuse under them
};

// What went wrong first, or nothing.
std::optional<std::string> run_ops(const std::vector<ModelOp>& ops, Fault fault = Fault::kNone);

// A list that still fails, from which no single operation can be left out.
std::vector<ModelOp> shrink(std::vector<ModelOp> ops, Fault fault);

}  // namespace sluice::store
