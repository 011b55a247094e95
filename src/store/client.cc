#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sluice/client.h>

#include "base/futex.h"
#include "store/session.h"

namespace sluice {

using store::Attachment;
using store::ObjectPlan;
using store::Session;

namespace {

std::unexpected<Error> detached() {
  return std::unexpected(store::detached_error());
}

std::uint64_t pin_of(const PutOptions& options, Instant t) noexcept {
  if (options.hard_pin) return store::kHardPin;
  if (options.soft_pin) return std::min(deadline_after(t, *options.soft_pin), kFarFuture - 1);
  return 0;
}

Result<ObjectPlan> plan_of(const ObjectKey& key, std::span<const NamedTensorSpec> specs,
                           const Attributes& attributes, const PutOptions& options, Instant t) {
  if (key.text().empty()) return fail(Code::kInvalidArgument, "the key is empty");
  auto bundle = tensor::plan_bundle(specs, attributes);
  if (!bundle) return std::unexpected(bundle.error());
  ObjectPlan plan;
  plan.bundle = std::move(*bundle);
  plan.checksums = options.checksums;
  plan.pin = pin_of(options, t);
  plan.kind = static_cast<std::uint8_t>(key.kind());
  return plan;
}

std::size_t id_at(const ObjectKey& key) noexcept {
  return key.text().size() - key.id_text().size();
}

void fill_key(store::Submission& s, store::Op op, const ObjectKey& key) noexcept {
  s.op = static_cast<std::uint32_t>(op);
  s.kind = static_cast<std::uint32_t>(key.kind());
  s.flags = 0;
  s.key_bytes = static_cast<std::uint16_t>(key.text().size());
  s.id_at = static_cast<std::uint16_t>(id_at(key));
  std::ranges::copy(key.text(), s.key.begin());
}

}  // namespace

std::string_view name(Presence presence) noexcept {
  switch (presence) {
    case Presence::kAbsent:
      return "absent";
    case Presence::kPending:
      return "pending";
    case Presence::kPresent:
      return "present";
  }
  return "unknown";
}

std::string_view name(PutOutcome outcome) noexcept {
  switch (outcome) {
    case PutOutcome::kPublished:
      return "published";
    case PutOutcome::kDuplicate:
      return "duplicate";
    case PutOutcome::kDivergentDuplicate:
      return "divergent_duplicate";
  }
  return "unknown";
}

Client::Client(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::attach(const ClientOptions& options) {
  auto session = Session::open(options);
  if (!session) return std::unexpected(session.error());
  return std::unique_ptr<Client>(new Client(std::move(*session)));
}

bool Client::attached() const noexcept {
  const auto a = session_->current();
  return a != nullptr && a->daemon_serves();
}

std::uint64_t Client::boot() const noexcept {
  const Session::Use a(*session_);
  return a ? a->boot() : 0;
}

std::uint32_t Client::id() const noexcept {
  const Session::Use a(*session_);
  return a ? a->id() : store::kNoClient;
}

std::string Client::directory() const {
  return session_->directory();
}
void Client::close() {
  session_->close();
}
Status Client::reattach(std::chrono::milliseconds timeout) {
  return session_->reattach(timeout);
}

Presence Client::lookup(const ObjectKey& key) const {
  Presence out = Presence::kAbsent;
  lookup(std::span(&key, 1), std::span(&out, 1));
  return out;
}

// Two passes over small batches, so that the slots of a batch come from memory together.
void Client::lookup(std::span<const ObjectKey> keys, std::span<Presence> out) const {
  std::ranges::fill(out, Presence::kAbsent);
  const Session::Use a(*session_);
  if (!a) return;
  const store::ControlView& control = a->control();
  constexpr std::size_t kBatch = 16;
  constexpr std::size_t kPrefetchedSlots =
      4;  // most keys stand no farther from their home in a full index
  std::array<Hash128, kBatch> hashes{};
  std::uint64_t hits = 0;
  for (std::size_t at = 0; at < keys.size(); at += kBatch) {
    const std::size_t n = std::min(kBatch, keys.size() - at);
    for (std::size_t i = 0; i < n; ++i) {
      hashes[i] = store::hash_of(keys[at + i].text());
      const store::Slot* home = &control.slot(control.home(hashes[i]));
      for (std::size_t near = 0; near < kPrefetchedSlots; ++near) __builtin_prefetch(home + near);
    }
    for (std::size_t i = 0; i < n; ++i) {
      out[at + i] = a->presence(hashes[i]);
      hits += out[at + i] == Presence::kPresent;
    }
  }
  a->counters().lookups.fetch_add(keys.size(), std::memory_order_relaxed);
  a->counters().hits.fetch_add(hits, std::memory_order_relaxed);
}

Result<Lease> Client::acquire(const ObjectKey& key) const {
  const Session::Use a(*session_);
  if (!a) return detached();
  auto lease = a->acquire(key);
  if (lease) {
    a->counters().gets.fetch_add(1, std::memory_order_relaxed);
    a->counters().get_bytes.fetch_add(lease->descriptor().object_bytes, std::memory_order_relaxed);
  }
  return lease;
}

Result<Lease> Client::get(const ObjectKey& key, std::optional<Verify> verify) const {
  auto lease = acquire(key);
  if (!lease) return lease;
  if (auto checked = lease->verify(verify.value_or(session_->verify())); !checked) {
    checked.error().message = fmt::format("{}: {}", key.text(), checked.error().message);
    return std::unexpected(checked.error());
  }
  return lease;
}

Result<Lease> Client::adopt(const Descriptor& descriptor) const {
  const Session::Use a(*session_);
  if (!a) return detached();
  auto lease = a->adopt(descriptor);
  if (lease) {
    a->counters().gets.fetch_add(1, std::memory_order_relaxed);
    a->counters().get_bytes.fetch_add(descriptor.object_bytes, std::memory_order_relaxed);
  }
  return lease;
}

Result<std::vector<Presence>> Client::wait(std::span<const ObjectKey> keys,
                                           std::chrono::milliseconds timeout) const {
  if (keys.size() > kWaitKeysMax) {
    return fail(Code::kLimit,
                fmt::format("wait for {} keys: at most {} at a time", keys.size(), kWaitKeysMax));
  }
  const Instant deadline = deadline_after(now(), timeout);
  const std::shared_ptr<Attachment> a = session_->current();
  if (a == nullptr) return detached();
  const auto& changes = a->control().header().changes;
  std::uint32_t bits = 0;
  for (const ObjectKey& key : keys) bits |= 1u << (store::hash_of(key.text()).low % 32);
  std::vector<Presence> out(keys.size());
  for (;;) {
    const std::uint32_t seen = changes.load(std::memory_order_seq_cst);
    lookup(keys, out);
    if (std::ranges::all_of(out, [](Presence p) { return p == Presence::kPresent; })) return out;
    if (now() >= deadline) return out;
    futex_wait(changes, seen, deadline, bits);
  }
}

Result<PutOutcome> Client::put(const ObjectKey& key, std::span<const TensorInput> tensors,
                               const Attributes& attributes, const PutOptions& options) {
  const Instant start = now();
  const Instant deadline = deadline_after(start, options.timeout);
  std::vector<NamedTensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorInput& t : tensors) specs.push_back({.name = t.name, .spec = t.spec});
  auto plan = plan_of(key, specs, attributes, options, start);
  if (!plan) return std::unexpected(plan.error());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].data.size() != plan->bundle.tensors[i].data_bytes) {
      return fail(
          Code::kInvalidArgument,
          fmt::format("tensor '{}' needs {} bytes for its shape and dtype, {} were given",
                      tensors[i].name, plan->bundle.tensors[i].data_bytes, tensors[i].data.size()));
    }
  }
  plan->key = key.text();
  plan->id_at = id_at(key);

  auto a = session_->for_request(deadline);
  if (!a) return std::unexpected(a.error());
  const auto grant = (*a)->take_grant(plan->extent_bytes(), deadline,
                                      deadline_after(start, options.write_timeout));
  if (!grant) return std::unexpected(grant.error());

  (*a)->map_in(*grant);
  const std::span<std::byte> object = (*a)->writable(*grant).first(plan->bundle.object_bytes);
  tensor::write_headers(plan->bundle, object);
  std::vector<std::uint64_t> digests(plan->checksums ? chunk_count(object.size()) : 0);
  if (plan->checksums) {
    // Headers and gaps stand in place already; elements are copied and hashed in one pass.
    std::vector<Piece> pieces;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorView& view = plan->bundle.tensors[i];
      pieces.push_back({.bytes = view.data_offset - at});
      pieces.push_back({.bytes = view.data_bytes, .from = tensors[i].data.data()});
      at = view.data_offset + view.data_bytes;
    }
    pieces.push_back({.bytes = object.size() - at});
    copy_pieces_and_hash(object, pieces, digests);
  } else {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorView& view = plan->bundle.tensors[i];
      copy_bytes(object.subspan(view.data_offset, view.data_bytes), tensors[i].data);
    }
  }
  return (*a)->publish(*grant, *plan, digests, deadline);
}

Result<Writer> Client::reserve(const ObjectKey& key, std::span<const NamedTensorSpec> specs,
                               const Attributes& attributes, const PutOptions& options) {
  const Instant start = now();
  const Instant deadline = deadline_after(start, options.timeout);
  auto plan = plan_of(key, specs, attributes, options, start);
  if (!plan) return std::unexpected(plan.error());
  auto a = session_->for_request(deadline);
  if (!a) return std::unexpected(a.error());
  const auto answer = (*a)->call(deadline, [&](store::Submission& s) {
    fill_key(s, store::Op::kReserve, key);
    s.extent_bytes = plan->extent_bytes();
    s.spec_digest = plan->bundle.spec_digest;
    s.write_deadline_ns = deadline_after(start, options.write_timeout);
  });
  if (!answer) return std::unexpected(answer.error());
  if (answer->answer == store::Answer::kDuplicate) return Writer();

  const auto grant = (*a)->grant_of(*answer);
  if (!grant) return std::unexpected(grant.error());
  (*a)->map_in(*grant);
  Writer writer;
  writer.tensors_ = plan->bundle.tensors;
  writer.checksums_ = plan->checksums;
  tensor::write_headers(plan->bundle, (*a)->writable(*grant).first(plan->bundle.object_bytes));
  const auto timeout_ns = static_cast<std::uint64_t>(
      std::max<std::int64_t>(std::chrono::nanoseconds(options.timeout).count(), 0));
  writer.token_ =
      (*a)->add_write({.grant = *grant, .plan = std::move(*plan), .timeout_ns = timeout_ns});
  writer.attachment_ = std::move(*a);
  return writer;
}

Status Client::remove(const ObjectKey& key, std::chrono::milliseconds timeout) {
  const Instant deadline = deadline_after(now(), timeout);
  auto a = session_->for_request(deadline);
  if (!a) return std::unexpected(a.error());
  const auto answer =
      (*a)->call(deadline, [&](store::Submission& s) { fill_key(s, store::Op::kRemove, key); });
  if (!answer) return std::unexpected(answer.error());
  return {};
}

Result<std::uint64_t> Client::invalidate(std::string_view prefix,
                                         std::chrono::milliseconds timeout) {
  if (prefix.empty() || prefix.size() > kKeyBytesMax) {
    return fail(Code::kInvalidArgument,
                "prefix: 1 to 1024 bytes of the keys' text, e.g. sluice1@tenant:default@");
  }
  const Instant deadline = deadline_after(now(), timeout);
  auto a = session_->for_request(deadline);
  if (!a) return std::unexpected(a.error());
  const auto answer = (*a)->call(deadline, [&](store::Submission& s) {
    s.op = static_cast<std::uint32_t>(store::Op::kInvalidate);
    s.kind = 0;
    s.flags = 0;
    s.id_at = 0;
    s.key_bytes = static_cast<std::uint16_t>(prefix.size());
    std::ranges::copy(prefix, s.key.begin());
  });
  if (!answer) return std::unexpected(answer.error());
  return answer->count;
}

namespace {

Status set_pin(Session& session, const ObjectKey& key, std::uint64_t pin) {
  const Instant deadline = deadline_after(now(), std::chrono::seconds(5));
  auto a = session.for_request(deadline);
  if (!a) return std::unexpected(a.error());
  const auto answer = (*a)->call(deadline, [&](store::Submission& s) {
    fill_key(s, store::Op::kPin, key);
    s.pin = pin;
  });
  if (!answer) return std::unexpected(answer.error());
  return {};
}

}  // namespace

Status Client::pin(const ObjectKey& key, std::optional<std::chrono::milliseconds> soft_ttl) {
  PutOptions options;
  options.soft_pin = soft_ttl;
  options.hard_pin = !soft_ttl;
  return set_pin(*session_, key, pin_of(options, now()));
}

Status Client::unpin(const ObjectKey& key) {
  return set_pin(*session_, key, 0);
}

}  // namespace sluice
