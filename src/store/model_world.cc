#include "store/model_world.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace sluice::store::model {

namespace {

Memory zeroed(std::uint64_t bytes) {
  auto* p = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kPageBytes}));
  std::memset(p, 0, bytes);
  return Memory(p);
}

}  // namespace

std::string key_text(std::uint32_t key) {
  // Some ids need more than one granule more.
  return fmt::format("configuration:{}@id:{}{}", key % 3, key,
                     std::string(key % 4 == 0 ? 150 : 0, 'x'));
}

std::size_t id_at_of(const std::string& text) {
  return text.find("@id:") + 4;
}

World::World(Fault fault) : fault_(fault) {
  const ControlShape shape{.objects_max = kObjects, .segment_bytes = kSegments};
  control_memory_ = zeroed(ControlView::bytes_for(shape));
  control_ = ControlView::create({control_memory_.get(), ControlView::bytes_for(shape)}, shape, 42);
  data_.resize(kSegments.size());
  for (std::size_t i = 0; i < kSegments.size(); ++i) data_[i].resize(kSegments[i] / kPageBytes * 8);
  make_store();
  for (std::uint32_t c = 0; c < kClients; ++c) attach(c);
}

std::optional<std::string> World::step(const ModelOp& op) {
  const std::uint32_t client = op.client % kHostile;
  if (!alive_[client] && op.kind != OpKind::kDie) attach(client);
  switch (op.kind) {
    case OpKind::kGrant:
    case OpKind::kReserve:
      ask_for_space(client, op);
      break;
    case OpKind::kPublish:
      ask_publish(client, op);
      break;
    case OpKind::kAbandon:
      ask_abandon(client, op);
      break;
    case OpKind::kRemove:
      ask({.client = client, .op = Op::kRemove, .key = op.a % kKeys}, op);
      break;
    case OpKind::kInvalidate:
      ask({.client = client, .op = Op::kInvalidate, .bytes = op.a % 4}, op);
      break;
    case OpKind::kPin:
      ask_pin(client, op);
      break;
    case OpKind::kAcquire:
      acquire(client, op.a % kKeys);
      break;
    case OpKind::kRelease:
      release(op.a);
      break;
    case OpKind::kPassTime:
      now_ += op.a % 40 * kNsPerMs;
      break;
    case OpKind::kDie:
      alive_[client] ? die(client) : attach(client);
      break;
    case OpKind::kRestart:
      restart(op.a);
      break;
    case OpKind::kGarbage:
      garbage(op);
      break;
  }
  tick();
  compare();
  if (failure_.empty()) return std::nullopt;
  return failure_;
}

std::span<std::uint64_t> World::words(
    const arena::Extent& e) {  // eight a page stand for all of its bytes
  return std::span(data_[e.segment]).subspan(e.offset / kPageBytes * 8, e.bytes / kPageBytes * 8);
}

bool World::stamped(const arena::Extent& e, std::uint64_t value) {
  return std::ranges::all_of(words(e), [value](std::uint64_t w) { return w == value; });
}

arena::Extent World::extent_in(std::uint32_t slot) const {
  const Slot& s = control_.slot(slot);
  return arena::unpack_extent(
      s.extent.load(), std::uint64_t{unpack_extent_info(s.extent_info.load()).pages} * kPageBytes);
}

void World::make_store() {
  store_ = std::make_unique<ObjectStore>(
      control_,
      StoreOptions{
          .reserved_bytes_per_client = kReservedMax, .high_watermark = 0.95, .low_watermark = 0.7});
}

void World::attach(std::uint32_t c) {
  pages_[c] = zeroed(page_layout(control_.index_slots()).bytes);
  new (pages_[c].get()) PageHeader{};
  ClientEntry& entry = control_.client(c);
  entry.serial.store(control_.header().next_client_serial.fetch_add(1));
  entry.state.store(static_cast<std::uint32_t>(ClientState::kAttached));
  store_->add_client(c, page(c));
  alive_[c] = true;
  number_[c] = 0;
}

void World::forget(std::uint32_t c) {
  alive_[c] = false;
  totals_.of_dead += std::erase_if(held_, [c](const Held& h) { return h.client == c; });
  std::erase_if(leases_, [c](const Standing& l) { return l.client == c; });
  std::erase_if(waiting_, [c](const Asked& a) { return a.client == c; });
}

void World::die(std::uint32_t c) {
  forget(c);
  store_->client_gone(c);
}

void World::restart(std::uint32_t died) {
  make_store();
  for (std::uint32_t c = 0; c < kClients; ++c) {
    if (alive_[c] && (died >> c & 1) == 0) store_->add_client(c, page(c));
  }
  for (std::uint32_t c = 0; c < kClients; ++c) {
    if (!alive_[c] || (died >> c & 1) == 0) continue;
    forget(c);
    store_->client_gone(c);
    if (c == kHostile) attach(c);
  }
  // What waited for space stands in the rings still, and is served again in their order.
  std::deque<Asked> again = std::exchange(waiting_, {});
  std::ranges::stable_sort(again, {}, [](const Asked& a) { return std::pair(a.client, a.number); });
  one_at_a_time_ = false;
  for (std::uint32_t c = 0; c < kClients; ++c) {
    const auto before = objects_;
    store_->serve(c, now_);
    reconcile(true);
    for (const Asked& a : again) {
      if (a.client == c) judge(a, before);
    }
  }
  one_at_a_time_ = true;
}

void World::tick() {
  for (Held& h : held_) {
    if (h.key && !h.expired && h.deadline <= now_) h.expired = true, ++totals_.expired;
  }
  const auto before = objects_;
  store_->tick(now_);
  store_->flush();
  reconcile(true);
  std::deque<Asked> asked = std::exchange(waiting_, {});
  for (const Asked& a : asked) judge(a, before);
  std::erase_if(retired_, [&](const Object& o) { return !named(o.slot, o.generation); });
}

}  // namespace sluice::store::model
