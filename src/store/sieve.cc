#include "store/sieve.h"

namespace sluice::store {

Sieve::Sieve(std::uint32_t slots_max) : nodes_(slots_max) {
  CHECK(slots_max < kNone);
}

void Sieve::insert(std::uint32_t slot) {
  CHECK(slot < nodes_.size() && !nodes_[slot].listed);
  nodes_[slot] = {.younger = kNone, .older = youngest_, .listed = true};
  if (youngest_ != kNone) {
    nodes_[youngest_].younger = slot;
  } else {
    oldest_ = slot;
  }
  youngest_ = slot;
  ++size_;
}

void Sieve::erase(std::uint32_t slot) {
  CHECK(contains(slot));
  const Node node = nodes_[slot];
  if (hand_ == slot) hand_ = node.younger;
  (node.older == kNone ? oldest_ : nodes_[node.older].younger) = node.younger;
  (node.younger == kNone ? youngest_ : nodes_[node.younger].older) = node.older;
  nodes_[slot] = {};
  --size_;
}

}  // namespace sluice::store
