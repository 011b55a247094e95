// The part of Attachment that asks the daemon: grants, publishes, and everything else that changes
// the arena.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "store/attachment.h"

namespace sluice::store {
namespace {

// Grants ahead come in classes, eight per doubling, so that the next object of about this size
// fits.
std::uint64_t grant_class(std::uint64_t bytes) noexcept {
  const std::uint64_t step = std::max<std::uint64_t>(std::bit_floor(bytes) / 8, kPageBytes);
  return align_up(bytes, step);
}

Error refusal(const Answered& a) {
  switch (a.answer) {
    case Answer::kNotFound:
      return {Code::kNotFound, Drop::kNothing, "no object has this key"};
    case Answer::kPending:
      return {Code::kPending, Drop::kNothing, "another writer holds a reservation for this key"};
    case Answer::kConflict:
      return {Code::kConflict, Drop::kTransfer,
              "another object with this key differs in tensors, attributes or bit-exact content; "
              "it stays"};
    case Answer::kOutOfSpace:
      return {Code::kOutOfSpace, Drop::kTransfer,
              "the arena is full of objects that are leased or pinned: enlarge it (sluiced "
              "--size), or release some"};
    case Answer::kExpired:
      return {Code::kExpired, Drop::kTransfer,
              "the reservation's deadline had passed before it was published"};
    case Answer::kTooLarge:
      return {Code::kLimit, Drop::kTransfer,
              "the object is larger than a segment of the arena (sluiced --segment-size)"};
    case Answer::kIndexFull:
      return {Code::kLimit, Drop::kTransfer, "the index is full: raise sluiced --objects-max"};
    case Answer::kTooMany:
      return {Code::kLimit, Drop::kTransfer,
              "this process has reserved as much as it may (sluiced --reserved-per-client): "
              "publish or abandon first"};
    case Answer::kMalformed:
      return {Code::kInternal, Drop::kTransfer, "the daemon refused a malformed request"};
    case Answer::kDraining:
      return {Code::kUnavailable, Drop::kTransfer, "the daemon is stopping"};
    case Answer::kUnknownReservation:
      return {Code::kExpired, Drop::kTransfer, "the reservation does not exist any more"};
    case Answer::kOk:
    case Answer::kDuplicate:
    case Answer::kDivergentDuplicate:
      break;
  }
  return {Code::kInternal, Drop::kTransfer,
          fmt::format("unexpected answer {}", static_cast<unsigned>(a.answer))};
}

void fill_grant(Submission& s, std::uint32_t flags, std::uint64_t bytes,
                std::uint64_t write_deadline) noexcept {
  s.op = static_cast<std::uint32_t>(Op::kGrant);
  s.kind = 0;
  s.flags = flags;
  s.extent_bytes = bytes;
  s.write_deadline_ns = write_deadline;
  s.key_bytes = 0;
}

bool is_success(Answer a) noexcept {
  return static_cast<std::uint32_t>(a) < static_cast<std::uint32_t>(Answer::kNotFound);
}

}  // namespace

Result<Answered> Attachment::call(Instant deadline, const std::function<void(Submission&)>& fill) {
  if (auto mine = usable(); !mine) return std::unexpected(mine.error());
  const auto number = ring_->submit(deadline, fill);
  if (!number) return std::unexpected(number.error());
  ring_doorbell();
  // Looked at while the daemon wakes up. Without one the request stands in the ring until one has
  // come, or the deadline.
  if (auto there = ensure_daemon(); !there && there.error().code != Code::kUnavailable) {
    ring_->leave(*number);
    return std::unexpected(there.error());
  }
  auto answer = ring_->wait(*number, deadline, [&]() -> Status {
    auto there = ensure_daemon();
    // Until the deadline a new daemon may come and serve the request.
    const bool none = !there && there.error().code == Code::kUnavailable;
    return none && now() < deadline ? Status{} : there;
  });
  if (!answer) {
    const Code code = answer.error().code;
    if ((code == Code::kTimedOut || code == Code::kUnavailable) && !daemon_serves()) {
      return fail(
          Code::kUnavailable,
          fmt::format("no daemon serves {}: start one with `sluiced` or `sluice up`", directory_));
    }
    return answer;
  }
  if (!is_success(answer->answer)) return std::unexpected(refusal(*answer));
  return answer;
}

// Bounds are those of this process's mappings, whatever stands in the page.
Result<Grant> Attachment::grant_of(const Answered& a) const {
  const Grant grant{.reservation = a.reservation,
                    .segment = a.segment,
                    .offset = a.offset,
                    .bytes = a.extent_bytes};
  if (grant.segment >= segments_.size() ||
      !fits(grant.offset, grant.bytes, segments_[grant.segment].size())) {
    return fail(Code::kCorrupt, "the daemon granted bytes outside the arena", Drop::kProcess);
  }
  return grant;
}

// Grants that were asked for ahead, and answers to requests that were given up.
void Attachment::give_back_late_grants() {
  std::vector<Grant> unsaid;
  {
    const std::scoped_lock lock(unsaid_mutex_);
    unsaid.swap(unsaid_);
  }
  for (const Grant& grant : unsaid) abandon(grant);
  for (const Answered& a : ring_->unclaimed()) {
    if (a.op != Op::kGrant && a.op != Op::kReserve) continue;
    const std::scoped_lock lock(grants_mutex_);
    if (a.op == Op::kGrant) asked_ahead_bytes_ = 0;
    if (a.answer != Answer::kOk) continue;
    const auto grant = grant_of(a);
    if (a.op == Op::kGrant && grant) {
      grants_.push_back(*grant);
    } else {
      abandon({.reservation = a.reservation});
    }
  }
}

Result<Grant> Attachment::take_grant(std::uint64_t bytes, Instant deadline,
                                     std::uint64_t write_deadline) {
  give_back_late_grants();
  {
    const std::scoped_lock lock(grants_mutex_);
    // The smallest that is large enough, and not so large that it would be wasted on this object.
    auto best = grants_.end();
    for (auto g = grants_.begin(); g != grants_.end(); ++g) {
      if (g->bytes >= bytes && g->bytes / 2 <= bytes &&
          (best == grants_.end() || g->bytes < best->bytes))
        best = g;
    }
    if (best != grants_.end()) {
      const Grant grant = *best;
      grants_.erase(best);
      return grant;
    }
    // Sizes have changed: what was granted for others is of no use now.
    for (const Grant& grant : std::exchange(grants_, {})) abandon(grant);
  }
  const auto answer =
      call(deadline, [&](Submission& s) { fill_grant(s, 0, bytes, write_deadline); });
  if (!answer) return std::unexpected(answer.error());
  return grant_of(*answer);
}

// Asks for the next object's extent while nobody waits for it.
void Attachment::ask_ahead(std::uint64_t bytes) {
  const std::uint64_t wanted = grant_class(bytes);
  {
    const std::scoped_lock lock(grants_mutex_);
    std::uint64_t held = asked_ahead_bytes_;
    for (const Grant& grant : grants_) held += grant.bytes;
    if (held != 0 || wanted > grant_ahead_bytes_) return;
    asked_ahead_bytes_ = wanted;
  }
  const Instant t = now();
  const auto number =
      ring_->submit(t, [&](Submission& s) { fill_grant(s, kAskedAhead, wanted, kFarFuture); });
  if (number) {
    ring_->leave(*number);
    ring_doorbell();
  } else {
    const std::scoped_lock lock(grants_mutex_);
    asked_ahead_bytes_ = 0;
  }
}

std::span<std::byte> Attachment::writable(const Grant& grant) const noexcept {
  return segments_[grant.segment].bytes().subspan(grant.offset, grant.bytes);
}

// Writes attributes and digests behind the object and says that it is whole.
Result<PutOutcome> Attachment::publish(const Grant& grant, const ObjectPlan& plan,
                                       std::span<std::uint64_t> digests, Instant deadline) {
  const std::uint64_t meta_bytes = plan.meta_bytes();
  const std::uint64_t attributes = align_up(plan.bundle.attributes.size(), 8);
  const auto meta = writable(grant).subspan(align_up(plan.bundle.object_bytes, 64), meta_bytes);
  std::ranges::fill(meta.first(attributes), std::byte{0});
  std::ranges::copy(plan.bundle.attributes, meta.begin());
  std::ranges::copy(std::as_bytes(digests), meta.begin() + static_cast<std::ptrdiff_t>(attributes));

  const auto answer = call(deadline, [&](Submission& s) {
    s.op = static_cast<std::uint32_t>(Op::kPublish);
    s.kind = plan.kind;
    s.flags = plan.checksums ? kHasChecksums : 0u;
    s.reservation = grant.reservation;
    s.object_bytes = plan.bundle.object_bytes;
    s.attribute_bytes = static_cast<std::uint32_t>(plan.bundle.attributes.size());
    s.meta_bytes = static_cast<std::uint32_t>(meta_bytes);
    s.meta_digest = hash64(meta);
    s.spec_digest = plan.bundle.spec_digest;
    s.content_digest =
        plan.checksums ? std::max<std::uint64_t>(hash64(std::as_bytes(digests)), 1) : 0;
    s.pin = plan.pin;
    s.key_bytes = static_cast<std::uint16_t>(plan.key.size());
    s.id_at = static_cast<std::uint16_t>(plan.id_at);
    std::ranges::copy(plan.key, s.key.begin());
  });
  if (!answer) {
    // Refused or unanswered: the daemon still counts this extent as being written.
    if (answer.error().code != Code::kConflict) abandon(grant);
    return std::unexpected(answer.error());
  }
  if (!plan.key.empty()) ask_ahead(plan.extent_bytes());
  counters().puts.fetch_add(1, std::memory_order_relaxed);
  counters().put_bytes.fetch_add(plan.bundle.object_bytes, std::memory_order_relaxed);
  switch (answer->answer) {
    case Answer::kDuplicate:
      return PutOutcome::kDuplicate;
    case Answer::kDivergentDuplicate:
      return PutOutcome::kDivergentDuplicate;
    default:
      return PutOutcome::kPublished;
  }
}

// Says that writing has stopped. Nobody waits for the answer; a daemon that is down reads it when
// it is back.
void Attachment::abandon(const Grant& grant) noexcept {
  if (!ours()) return;
  const auto number = ring_->submit(now() + kNsPerMs, [&](Submission& s) {
    s.op = static_cast<std::uint32_t>(Op::kAbandon);
    s.kind = 0;
    s.flags = 0;
    s.reservation = grant.reservation;
    s.key_bytes = 0;
  });
  if (!number) {  // the ring is full of waiting requests: said again at the next put
    const std::scoped_lock lock(unsaid_mutex_);
    unsaid_.push_back(grant);
    return;
  }
  ring_->leave(*number);
  ring_doorbell();
}

// Into the half that nobody reads, then one store that makes it the current one.
Status Attachment::post(std::string_view text) {
  const std::scoped_lock lock(board_mutex_);
  auto& word = page_view_.header().board;
  const auto next = static_cast<std::uint32_t>(word.load(std::memory_order_relaxed) >> 32) + 1;
  std::memcpy(page_view_.board(next), text.data(), text.size());
  word.store(static_cast<std::uint64_t>(next) << 32 | text.size(), std::memory_order_release);
  return {};
}

std::uint64_t Attachment::add_write(OpenWrite write) {
  const std::scoped_lock lock(writes_mutex_);
  const std::uint64_t token = next_token_++;
  writes_.emplace(token, std::move(write));
  return token;
}

std::optional<Attachment::OpenWrite> Attachment::take_write(std::uint64_t token) {
  const std::scoped_lock lock(writes_mutex_);
  const auto found = writes_.find(token);
  if (found == writes_.end()) return std::nullopt;
  OpenWrite write = std::move(found->second);
  writes_.erase(found);
  return write;
}

std::span<std::byte> Attachment::write_bytes(std::uint64_t token) {
  const std::scoped_lock lock(writes_mutex_);
  const auto found = writes_.find(token);
  if (found == writes_.end()) return {};
  return writable(found->second.grant).first(found->second.plan.bundle.object_bytes);
}

}  // namespace sluice::store
