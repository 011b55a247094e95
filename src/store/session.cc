#include "store/session.h"

#include <utility>

#include <sched.h>

#include "store/daemon.h"

namespace sluice::store {

Error detached_error() {
  return {
      Code::kDetached, Drop::kProcess,
      "this handle was closed, or belongs to the parent of a fork: attach anew in this process"};
}

Result<std::unique_ptr<Session>> Session::open(const ClientOptions& options) {
  std::string directory = options.directory;
  if (directory.empty()) {
    auto named = default_directory(options.arena);
    if (!named) return std::unexpected(named.error());
    directory = std::move(*named);
  }
  if (options.label.size() >= kLabelBytes) {
    return fail(Code::kInvalidArgument, "label: at most 63 bytes");
  }
  auto attachment = Attachment::attach(directory, options);
  if (!attachment) return std::unexpected(attachment.error());
  return std::unique_ptr<Session>(
      new Session(options, std::move(directory), std::move(*attachment)));
}

Session::Session(ClientOptions options, std::string directory,
                 std::shared_ptr<Attachment> attachment)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      owner_(std::move(attachment)),
      fast_(owner_.get()) {}

Session::~Session() {
  close();
}

Session::Use::Use(const Session& session) noexcept : session_(session) {
  session_.uses_.fetch_add(1, std::memory_order_seq_cst);
  attachment_ = session_.fast_.load(std::memory_order_seq_cst);
  if (attachment_ != nullptr && !attachment_->ours()) attachment_ = nullptr;
}

Session::Use::~Use() {
  session_.uses_.fetch_sub(1, std::memory_order_release);
}

// Requires mutex_.
void Session::replace(std::shared_ptr<Attachment> next) {
  const std::shared_ptr<Attachment> old = std::exchange(owner_, std::move(next));
  fast_.store(owner_.get(), std::memory_order_seq_cst);
  // In a fork's child the counter may have been copied while a thread of the parent was inside.
  if (old != nullptr && old->ours()) {
    while (uses_.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  }
}

void Session::close() {
  if (!guard_.ours()) {
    // A fork's child has one thread, and a thread of the parent may have held the mutex.
    fast_.store(nullptr, std::memory_order_seq_cst);
    owner_.reset();
    return;
  }
  const std::scoped_lock lock(mutex_);
  replace(nullptr);
}

std::shared_ptr<Attachment> Session::current() const {
  if (!guard_.ours()) return nullptr;
  const std::scoped_lock lock(mutex_);
  return owner_;
}

// Waiting happens outside of the mutex: readers of this process never wait for a daemon.
Result<std::shared_ptr<Attachment>> Session::for_request(Instant deadline) {
  for (;;) {
    auto attached = try_attach();
    const bool retry = !attached && attached.error().code == Code::kUnavailable &&
                       now() + kAttachRetryNs < deadline;
    if (!retry) return attached;
    sleep_until(now() + kAttachRetryNs);
  }
}

Result<std::shared_ptr<Attachment>> Session::try_attach() {
  if (!guard_.ours()) return std::unexpected(detached_error());
  const std::scoped_lock lock(mutex_);
  if (owner_ == nullptr) return std::unexpected(detached_error());
  if (auto there = owner_->ensure_daemon(); !there) {
    if (!owner_->replaced()) return std::unexpected(there.error());
    ClientOptions options = options_;
    options.attach_timeout = {};
    auto next = Attachment::attach(directory_, options);
    if (!next) return std::unexpected(next.error());
    replace(std::move(*next));
  }
  return owner_;
}

Status Session::reattach(std::chrono::milliseconds timeout) {
  const auto attached = for_request(deadline_after(now(), timeout));
  if (!attached) return std::unexpected(attached.error());
  return {};
}

}  // namespace sluice::store
