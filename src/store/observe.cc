// What a client can see of the arena without asking anybody: objects, counters, other clients and
// what they posted.
#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sluice/client.h>

#include "store/arena_files.h"
#include "store/process.h"
#include "store/session.h"

namespace sluice {

namespace {

std::uint64_t load(const std::atomic<std::uint64_t>& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

// The half that was posted last, whole; empty when it changed three times while it was read.
std::string read_board(const store::PageView& page) {
  auto& word = page.header().board;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::uint64_t before = word.load(std::memory_order_acquire);
    const auto bytes = static_cast<std::uint32_t>(before);
    if (bytes == 0 || bytes > kBoardBytesMax) return {};
    std::string text(bytes, '\0');
    std::memcpy(text.data(), page.board(static_cast<std::uint32_t>(before >> 32)), bytes);
    // While the word stands, only the other half is written.
    const std::uint64_t after = word.load(std::memory_order_acquire);
    if (after >> 32 == before >> 32) return text;
  }
  return {};
}

}  // namespace

std::vector<ObjectInfo> Client::list(std::string_view prefix, std::size_t limit) const {
  std::vector<ObjectInfo> out;
  const auto a = session_->current();
  if (a == nullptr) return out;
  const store::ControlView& control = a->control();
  for (std::uint32_t number = 0; number < control.index_slots() && out.size() < limit; ++number) {
    const store::Slot& slot = control.slot(number);
    const store::SlotWord word = slot.load();
    if (word.state != store::SlotState::kPublished) continue;
    // Read under a lease, as a reader does.
    auto lease = a->lease_slot(number, word.generation);
    if (!lease) continue;
    const auto info = store::unpack_record_info(slot.record_info.load(std::memory_order_relaxed));
    const store::Record& record = a->record_of(lease->descriptor());
    ObjectInfo object;
    object.key = fmt::format("{}@id:{}", store::prefix_text(control.prefixes(), record.prefix),
                             control.id_of(record, info));
    if (!std::string_view(object.key).starts_with(prefix)) continue;
    object.object_bytes = record.object_bytes;
    const auto extent = store::unpack_extent_info(slot.extent_info.load(std::memory_order_relaxed));
    object.extent_bytes = static_cast<std::uint64_t>(extent.pages) * kPageBytes;
    object.created_ns = record.created_ns;
    object.checksums = (record.flags & store::kHasChecksums) != 0;
    const std::uint64_t pin = load(slot.deadline_or_pin);
    object.hard_pinned = pin == store::kHardPin;
    object.soft_pinned_until_ns = object.hard_pinned ? 0 : pin;
    out.push_back(std::move(object));
  }
  std::ranges::sort(out, {}, &ObjectInfo::key);
  return out;
}

ArenaStats Client::stats() const {
  ArenaStats s;
  const auto a = session_->current();
  if (a == nullptr) return s;
  const store::ControlHeader& h = a->control().header();
  const store::ControlCounters& c = h.counters;
  s.boot = h.boot;
  s.epoch = h.epoch.load(std::memory_order_relaxed);
  s.daemon_pid = h.daemon_pid.load(std::memory_order_relaxed);
  s.daemon_alive = a->daemon_serves();
  s.arena_bytes = load(c.arena_bytes);
  s.used_bytes = load(c.used_bytes);
  s.reserved_bytes = load(c.reserved_bytes);
  s.objects = load(c.objects);
  s.objects_max = h.objects_max;
  s.clients = load(c.clients);
  for (std::uint32_t id = 0; id < kClientsMax; ++id)
    s.leases += load(a->control().client(id).leases);
  s.published_total = load(c.published);
  s.duplicates_total = load(c.duplicates);
  s.divergent_duplicates_total = load(c.divergent_duplicates);
  s.conflicts_total = load(c.conflicts);
  s.evictions_total = load(c.evictions);
  s.removals_total = load(c.removals);
  s.expired_total = load(c.expired);
  s.abandoned_total = load(c.abandoned);
  s.out_of_space_total = load(c.out_of_space);
  s.reclaimed_of_dead_total = load(c.reclaimed_of_dead);
  s.refused_total = load(c.refused);
  s.index_bytes = static_cast<std::uint64_t>(a->control().all_slots()) * sizeof(store::Slot);
  s.record_bytes = load(c.record_bytes);
  for (const auto& k : c.kinds) {
    s.kinds.push_back({.objects = load(k.objects),
                       .object_bytes = load(k.object_bytes),
                       .puts = load(k.puts),
                       .duplicates = load(k.duplicates),
                       .evictions = load(k.evictions),
                       .removals = load(k.removals)});
  }
  return s;
}

std::vector<ClientInfo> Client::clients() const {
  std::vector<ClientInfo> out;
  const auto a = session_->current();
  if (a == nullptr) return out;
  const store::PageLayout layout = store::page_layout(a->control().index_slots());
  for (std::uint32_t id = 0; id < kClientsMax; ++id) {
    const store::ClientEntry& entry = a->control().client(id);
    if (entry.state.load(std::memory_order_acquire) !=
        static_cast<std::uint32_t>(store::ClientState::kAttached))
      continue;
    ClientInfo info;
    info.id = id;
    info.pid = entry.pid.load(std::memory_order_relaxed);
    info.alive = store::is_alive(static_cast<pid_t>(info.pid), load(entry.start_time));
    info.reserved_bytes = load(entry.reserved_bytes);
    auto fd = arena::open_segment(store::page_path(a->directory(), id), layout.bytes,
                                  arena::Access::kReadOnly);
    auto mapping =
        fd ? arena::map_segment(fd->get(), layout.bytes, {.access = arena::Access::kReadOnly})
           : Result<arena::Mapping>(std::unexpected(fd.error()));
    if (mapping) {
      const store::PageView page(mapping->data(), a->control().index_slots());
      const store::PageHeader& h = page.header();
      info.label = store::label_text(h.label);
      info.lookups = load(h.counters.lookups);
      info.hits = load(h.counters.hits);
      info.gets = load(h.counters.gets);
      info.get_bytes = load(h.counters.get_bytes);
      info.puts = load(h.counters.puts);
      info.put_bytes = load(h.counters.put_bytes);
      info.corrupt = load(h.counters.corrupt);
      const std::uint32_t high =
          std::min(h.leases_high.load(std::memory_order_relaxed), kLeasesPerClient);
      for (std::uint32_t i = 0; i < high; ++i)
        info.leases += page.lease(i).load(std::memory_order_relaxed) != 0;
      info.board = read_board(page);
    }
    out.push_back(std::move(info));
  }
  return out;
}

Status Client::post(std::string_view text) {
  if (text.size() > kBoardBytesMax) {
    return fail(Code::kLimit, fmt::format("post of {} bytes: at most {} are possible", text.size(),
                                          kBoardBytesMax));
  }
  const auto a = session_->current();
  if (a == nullptr) return std::unexpected(store::detached_error());
  return a->post(text);
}

}  // namespace sluice
