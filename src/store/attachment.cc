#include "store/attachment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/checked.h"
#include "store/arena_files.h"
#include "store/unix_socket.h"

namespace sluice::store {
namespace {

// A daemon that accepted a connection answers in this time, or counts as none.
constexpr std::uint64_t kReplyNs = 1000 * kNsPerMs;

}  // namespace

std::uint64_t ObjectPlan::meta_bytes() const noexcept {
  const std::uint64_t digests =
      checksums ? chunk_count(bundle.object_bytes) * sizeof(std::uint64_t) : 0;
  return align_up(bundle.attributes.size(), 8) + digests;
}

std::uint64_t ObjectPlan::extent_bytes() const noexcept {
  return align_up(bundle.object_bytes, 64) + meta_bytes();
}

Result<std::shared_ptr<Attachment>> Attachment::attach(const std::string& directory,
                                                       const ClientOptions& options) {
  std::shared_ptr<Attachment> a(new Attachment());
  a->directory_ = directory;
  a->label_ = label_bytes(options.label);
  const Instant deadline = deadline_after(now(), options.attach_timeout);
  AttachRequest request;
  request.label = a->label_;
  auto connected = a->connect(request);
  while (!connected && connected.error().code == Code::kUnavailable &&
         now() + kAttachRetryNs < deadline) {
    sleep_until(now() + kAttachRetryNs);
    connected = a->connect(request);
  }
  if (!connected) return std::unexpected(connected.error());
  const std::uint64_t arena_bytes = a->control_.header().arena_bytes;
  a->grant_ahead_bytes_ = std::min(options.grant_ahead_bytes, arena_bytes / 16);
  a->start_populating(options.populate_bytes_max);
  return a;
}

// Connects, and maps what the daemon passes unless this is a re-attachment, whose mappings stay.
Status Attachment::connect(const AttachRequest& request) {
  auto socket = connect_to(socket_path(directory_));
  if (!socket) {
    if (socket.error().code != Code::kUnavailable) return std::unexpected(socket.error());
    return fail(
        Code::kUnavailable,
        fmt::format("no daemon serves {}: start one with `sluiced` or `sluice up`", directory_));
  }
  if (auto sent = send_frame(socket->get(), std::as_bytes(std::span(&request, 1))); !sent)
    return sent;
  auto frame = receive_frame(socket->get(), sizeof(AttachReply), now() + kReplyNs);
  if (!frame && frame.error().code == Code::kTimedOut) {  // tried again until the caller's deadline
    return fail(Code::kUnavailable, fmt::format("the daemon of {} does not answer", directory_));
  }
  if (!frame) return std::unexpected(frame.error());
  const auto reply = decode_reply(frame->bytes);
  if (!reply) return std::unexpected(reply.error());
  if (reply->code != 0) return fail(static_cast<Code>(reply->code - 1), reply->message.data());
  if (reply->segment_count > kSegmentsMax ||
      frame->fds.size() != kAttachFixedFds + reply->segment_count) {
    return fail(Code::kVersion, fmt::format("the daemon passed {} descriptors for {} segments",
                                            frame->fds.size(), reply->segment_count));
  }

  if (request.client == kNoClient) {
    const auto control_bytes = arena::check_segment(frame->fds[0].get(), 0, "control segment");
    if (!control_bytes) return std::unexpected(control_bytes.error());
    auto control = arena::map_segment(frame->fds[0].get(), *control_bytes,
                                      {.access = arena::Access::kReadOnly});
    if (!control) return std::unexpected(control.error());
    control_mapping_ = std::move(*control);
    const auto view = ControlView::validate(control_mapping_.bytes());
    if (!view) return std::unexpected(view.error());
    control_ = *view;

    const PageLayout layout = page_layout(control_.index_slots());
    if (auto checked = arena::check_segment(frame->fds[1].get(), layout.bytes, "client page");
        !checked) {
      return std::unexpected(checked.error());
    }
    auto page = arena::map_segment(frame->fds[1].get(), layout.bytes,
                                   {.access = arena::Access::kReadWrite});
    if (!page) return std::unexpected(page.error());
    page_mapping_ = std::move(*page);
    page_view_ = PageView(page_mapping_.data(), control_.index_slots());
    page_view_.header().joined.store(1, std::memory_order_seq_cst);
    ring_ = std::make_unique<RequestRing>(page_view_);

    for (std::uint32_t i = 0; i < reply->segment_count; ++i) {
      UniqueFd& fd = frame->fds[kAttachFixedFds + i];
      const std::uint64_t bytes = control_.header().segment_bytes[i];
      if (auto checked = arena::check_segment(fd.get(), bytes, "data segment"); !checked) {
        return std::unexpected(checked.error());
      }
      auto mapping = arena::map_segment(fd.get(), bytes,
                                        {.access = arena::Access::kReadWrite, .huge_pages = true});
      if (!mapping) return std::unexpected(mapping.error());
      populated_.emplace_back(mapping->bytes());
      segments_.push_back(std::move(*mapping));
      segment_fds_.push_back(std::move(fd));
    }
    private_segments_.resize(segments_.size());
    private_bases_ = std::vector<std::atomic<std::byte*>>(segments_.size());
    verified_ = std::vector<std::atomic<std::uint32_t>>(control_.index_slots());
    id_ = reply->client;
    serial_ = reply->serial;
  }
  socket_ = std::move(*socket);
  doorbell_ = std::move(frame->fds[2]);
  epoch_.store(reply->epoch, std::memory_order_release);
  return {};
}

bool Attachment::daemon_serves() const noexcept {
  const std::scoped_lock lock(connection_mutex_);
  return ours() && !replaced() && socket_ && !hung_up(socket_.get());
}

// The daemon died and another one may have taken the arena over: same page, new doorbell.
Status Attachment::reattach() {
  AttachRequest request;
  request.client = id_;
  request.serial = serial_;
  request.boot = boot();
  request.label = label_;
  auto connected = connect(request);
  if (!connected && connected.error().code == Code::kDetached)
    replaced_.store(true, std::memory_order_release);
  return connected;
}

Status Attachment::usable() const {
  if (!ours())
    return fail(Code::kDetached,
                "this handle belongs to the parent of a fork: attach anew in the child");
  if (replaced()) return fail(Code::kDetached, "the arena was replaced by a new one: attach anew");
  return {};
}

Status Attachment::ensure_daemon() {
  if (auto mine = usable(); !mine) return mine;
  const std::scoped_lock lock(connection_mutex_);
  if (socket_ && !hung_up(socket_.get())) return {};
  socket_.reset();
  return reattach();
}

void Attachment::ring_doorbell() const noexcept {
  if (control_.header().doorbell_needed.load(std::memory_order_seq_cst) == 0) return;
  const std::scoped_lock lock(
      connection_mutex_);  // the descriptor is replaced when a new daemon has come
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(doorbell_.get(), &one, sizeof(one));
}

// Maps the arena's pages in before they are needed: the daemon has allocated them, this only fills
// the page table.
void Attachment::start_populating(std::uint64_t bytes_max) {
  if (bytes_max == 0) return;
  populator_ = std::jthread([this, bytes_max](const std::stop_token& stop) {
    std::uint64_t left = bytes_max;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      for (std::uint64_t at = 0; at < segments_[i].size() && left != 0 && !stop.stop_requested();) {
        const std::uint64_t step = std::min({kPopulateWindowBytes, segments_[i].size() - at, left});
        if (!populated_[i].populate(at, step)) return;
        at += step;
        left -= step;
      }
    }
  });
}

void Attachment::map_in(const Grant& grant) noexcept {
  // A small object has few pages, and faults are cheaper than a whole window.
  if (grant.bytes < kChunkBytes) return;
  // Failing, the copy faults its pages in by itself.
  [[maybe_unused]] const auto in = populated_[grant.segment].populate(grant.offset, grant.bytes);
}

Attachment::~Attachment() {
  if (!ours()) {
    // A fork's child: nothing here is mapped, and the populating thread does not exist.
    if (populator_.joinable()) populator_.detach();
    forget_mappings();
    return;
  }
  populator_ = {};
  if (!page_view_) return;
  // Every lease and writer is gone, or this would not run.
  page_view_.header().detached.store(1, std::memory_order_release);
  if (doorbell_) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(doorbell_.get(), &one, sizeof(one));
  }
}

void Attachment::forget_mappings() noexcept {
  control_mapping_.forget();
  page_mapping_.forget();
  for (auto* group : {&segments_, &private_segments_}) {
    for (arena::Mapping& mapping : *group) mapping.forget();
  }
}

}  // namespace sluice::store
