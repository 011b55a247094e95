#include "store/daemon_loop.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "base/scheduling.h"
#include "store/process.h"

namespace sluice::store {
namespace {

enum class Tag : std::uint32_t { kListener, kDoorbell, kControl, kGreeting, kSocket, kDeath };

constexpr std::uint64_t tag(Tag what, std::uint32_t number = 0) noexcept {
  return static_cast<std::uint64_t>(what) << 32 | number;
}

constexpr std::uint64_t kHeartbeatNs = 500 * kNsPerMs;
constexpr std::uint64_t kListenAgainNs = 100 * kNsPerMs;  // after running out of descriptors
constexpr std::uint64_t kGreetingNs = 2000 * kNsPerMs;
constexpr std::uint64_t kTouchStepBytes = 32u << 20;
constexpr std::uint64_t kSerialMax = (std::uint64_t{1} << 24) - 1;

constexpr std::string_view kNoDescriptors =
    "the daemon has no descriptor left for another client: raise its limit of open files (ulimit "
    "-n)";
// Sockets and deaths are looked at this often, however many requests there are.
constexpr std::uint64_t kLookNs = kNsPerMs;

void drain_eventfd(int fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd, &count, sizeof(count));
}

void raise_eventfd(int fd) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(fd, &one, sizeof(one));
}

}  // namespace

Result<std::unique_ptr<DaemonLoop>> DaemonLoop::open(DaemonOptions options) {
  if (!(options.low_watermark > 0 && options.low_watermark <= options.high_watermark &&
        options.high_watermark <= 1)) {
    return fail(Code::kInvalidArgument,
                fmt::format("watermarks low {} and high {}: must be 0 < low <= high <= 1",
                            options.low_watermark, options.high_watermark));
  }
  auto files = ArenaFiles::open(options);
  if (!files) return std::unexpected(files.error());
  std::unique_ptr<DaemonLoop> loop(new DaemonLoop(std::move(options), std::move(*files)));
  if (auto started = loop->start(); !started) return std::unexpected(started.error());
  return loop;
}

DaemonLoop::DaemonLoop(DaemonOptions options, ArenaFiles files)
    : options_(std::move(options)), files_(std::move(files)), control_(files_.control()) {}

DaemonLoop::~DaemonLoop() = default;

Status DaemonLoop::start() {
  ControlHeader& header = control_.header();
  if (options_.reserved_bytes_per_client == 0)
    options_.reserved_bytes_per_client = std::max(header.arena_bytes / 2, kPageBytes);
  if (files_.adopted() && header.arena_bytes != options_.arena_bytes / kPageBytes * kPageBytes) {
    log(LogLevel::kWarning,
        fmt::format("arena {} exists with {} bytes and is taken over as it is; to change its size, "
                    "stop its users and remove the folder",
                    files_.directory(), header.arena_bytes));
  }
  store_ = std::make_unique<ObjectStore>(
      control_, StoreOptions{.reserved_bytes_per_client = options_.reserved_bytes_per_client,
                             .high_watermark = options_.high_watermark,
                             .low_watermark = options_.low_watermark});
  store_->set_draining(false);

  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  doorbell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  control_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!epoll_ || !doorbell_ || !control_event_) {
    return fail(Code::kIo, fmt::format("cannot make event descriptors: {}", std::strerror(errno)));
  }
  if (auto adopted = adopt_clients(); !adopted) return adopted;

  auto listener = listen_at(socket_path(files_.directory()), options_.directory_mode & 0666);
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  for (const auto& [fd, what] :
       {std::pair(listener_.get(), Tag::kListener), std::pair(doorbell_.get(), Tag::kDoorbell),
        std::pair(control_event_.get(), Tag::kControl)}) {
    if (auto watched = watch(fd, tag(what)); !watched) return watched;
  }
  header.daemon_pid.store(::getpid(), std::memory_order_relaxed);
  header.epoch.fetch_add(1, std::memory_order_seq_cst);
  heartbeat_.store(now(), std::memory_order_relaxed);
  if (options_.touch) {
    toucher_ = std::jthread([this](const std::stop_token& stop) { touch_arena(stop); });
  }
  log(LogLevel::kInfo, fmt::format("{} arena {}: {} bytes in {} segments, room for {} objects",
                                   files_.adopted() ? "took over" : "created", files_.directory(),
                                   header.arena_bytes, header.segment_count, header.objects_max));
  return {};
}

// Every page is found before anything is reclaimed.
Status DaemonLoop::adopt_clients() {
  std::vector<std::uint32_t> dead;
  const PageLayout layout = page_layout(control_.index_slots());
  for (std::uint32_t id = 0; id < kClientsMax; ++id) {
    const ClientEntry& entry = control_.client(id);
    if (entry.state.load(std::memory_order_acquire) !=
        static_cast<std::uint32_t>(ClientState::kAttached))
      continue;
    const auto pid = static_cast<pid_t>(entry.pid.load(std::memory_order_relaxed));
    const std::uint64_t start_time = entry.start_time.load(std::memory_order_relaxed);
    auto [life, pidfd] = watch_process(pid, start_time);
    if (life == Life::kEnded) {
      dead.push_back(id);
      continue;
    }
    if (life == Life::kUnknown) {
      return fail(
          Code::kIo,
          fmt::format(
              "cannot learn whether client {} (pid {}) lives: {}; raise the limit of open files "
              "(ulimit -n), or stop that process",
              id, pid, std::strerror(errno)));
    }
    const std::string path = page_path(files_.directory(), id);
    auto fd = arena::open_segment(path, layout.bytes, arena::Access::kReadWrite);
    auto page =
        fd ? arena::map_segment(fd->get(), layout.bytes, {.access = arena::Access::kReadWrite})
           : Result<arena::Mapping>(std::unexpected(fd.error()));
    if (!page) {
      return fail(
          Code::kCorrupt,
          fmt::format(
              "the page of living client {} (pid {}) cannot be read: {}; stop that process first",
              id, pid, page.error().message),
          Drop::kSegment);
    }
    if (auto watched = watch(pidfd.get(), tag(Tag::kDeath, id)); !watched) return watched;
    store_->add_client(id, PageView(page->data(), control_.index_slots()));
    clients_.emplace(id,
                     Connected{.socket = {}, .pidfd = std::move(pidfd), .page = std::move(*page)});
  }
  for (const std::uint32_t id : dead) {
    store_->client_gone(id);
    ::unlink(page_path(files_.directory(), id).c_str());
  }
  return {};
}

void DaemonLoop::run() {
  ask_for_short_slices();
  Instant look_at = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    const Instant t = now();
    heartbeat_.store(t, std::memory_order_relaxed);
    const Instant drain_until = drain_until_.load(std::memory_order_acquire);
    if (drain_until != 0) {
      store_->set_draining(true);
      if (store_->open_reservations() == 0 || t >= drain_until) break;
    }
    if (!turn() || t >= look_at) {
      sleep(t);
      look_at = t + kLookNs;
    }
  }
  store_->flush();
  control_.header().daemon_pid.store(0, std::memory_order_release);
  toucher_.request_stop();
  if (toucher_.joinable()) toucher_.join();
  listener_.reset();
  if (!options_.keep_on_stop) files_.remove();
  log(LogLevel::kInfo, "stopped");
}

bool DaemonLoop::turn() {
  const Instant t = now();
  bool served = false;
  std::vector<std::uint32_t> detached;
  for (const auto& [id, client] : clients_) {
    served |= store_->serve(id, t);
    const PageView page(client.page.data(), control_.index_slots());
    if (page.header().detached.load(std::memory_order_acquire) != 0) detached.push_back(id);
  }
  for (const std::uint32_t id : detached) gone(id, "detached");
  store_->tick(t);
  store_->flush();
  return served;
}

void DaemonLoop::sleep(Instant t) {
  // Only now, when what was asked for has been served: those who rang before this are seen below.
  if (std::exchange(rung_, false)) drain_eventfd(doorbell_.get());
  auto& needed = control_.header().doorbell_needed;
  needed.store(1, std::memory_order_seq_cst);
  // Whoever submitted before it could see the 1 is seen here.
  const bool missed = std::ranges::any_of(
      clients_, [&](const auto& entry) { return store_->has_request(entry.first); });
  if (listen_again_ != 0 && t >= listen_again_) {
    listen_again_ = 0;
    if (!spare_) spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    set_listening(true);
  }
  const Instant listen = listen_again_ != 0 ? listen_again_ : kFarFuture;
  const Instant next = std::min({store_->next_tick(t), t + kHeartbeatNs, listen});
  const std::uint64_t wait_ns = missed || next <= t ? 0 : next - t;
  std::array<epoll_event, 64> events{};
  const timespec timeout = to_timespec(wait_ns);
  const int n = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               &timeout, nullptr);
  needed.store(0, std::memory_order_relaxed);
  for (int i = 0; i < n; ++i) {
    const auto what = static_cast<Tag>(events[static_cast<std::size_t>(i)].data.u64 >> 32);
    const auto number = static_cast<std::uint32_t>(events[static_cast<std::size_t>(i)].data.u64);
    switch (what) {
      case Tag::kListener:
        accept_all();
        break;
      case Tag::kDoorbell:
        rung_ = true;
        break;
      case Tag::kControl:
        drain_eventfd(control_event_.get());
        break;
      case Tag::kGreeting:
        greet(static_cast<int>(number));
        break;
      case Tag::kDeath:
        gone(number, "died");
        break;
      case Tag::kSocket:
        // A reason to look, no more: the pidfd decides. Only a client that never mapped its page
        // has surely given up.
        if (const auto c = clients_.find(number); c != clients_.end()) {
          const PageView page(c->second.page.data(), control_.index_slots());
          c->second.socket.reset();
          if (page.header().joined.load(std::memory_order_seq_cst) == 0)
            gone(number, "gave up while it attached");
        }
        break;
    }
  }
  if (!greetings_.empty()) drop_silent_greetings(now());
}

void DaemonLoop::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno != EMFILE && errno != ENFILE) return;
      if (spare_ && refuse_without_descriptors()) continue;
      listen_again_ = now() + kListenAgainNs;
      set_listening(false);
      return;
    }
    if (greetings_.size() >= kClientsMax)
      continue;  // closed at once; the client sees the connection end
    const int fd = socket.get();
    if (!watch(fd, tag(Tag::kGreeting, static_cast<std::uint32_t>(fd)))) continue;
    greetings_.emplace(fd, Greeting{.socket = std::move(socket), .deadline = now() + kGreetingNs});
  }
}

// A connection that cannot be accepted would wake the loop for ever.
void DaemonLoop::set_listening(bool listening) noexcept {
  epoll_event event{.events = listening ? std::uint32_t{EPOLLIN} : 0u,
                    .data = {.u64 = tag(Tag::kListener)}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

// With the descriptor that is kept for this: a connection that stays in the queue would wake the
// loop for ever.
bool DaemonLoop::refuse_without_descriptors() {
  spare_.reset();
  bool refused = false;
  if (const UniqueFd socket{
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}) {
    [[maybe_unused]] const auto request =
        receive_frame(socket.get(), sizeof(AttachRequest), now() + kNsPerMs);
    const AttachReply reply = refuse(Code::kLimit, kNoDescriptors);
    [[maybe_unused]] const auto sent =
        send_frame(socket.get(), std::as_bytes(std::span(&reply, 1)));
    log(LogLevel::kError, kNoDescriptors);
    refused = true;
  }
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return refused;
}

void DaemonLoop::greet(int fd) {
  const auto found = greetings_.find(fd);
  if (found == greetings_.end()) return;
  UniqueFd socket = std::move(found->second.socket);
  greetings_.erase(found);
  auto frame = receive_frame(socket.get(), sizeof(AttachRequest), now() + kNsPerMs);
  if (!frame) return;
  const auto peer = peer_of(socket.get());
  if (!peer) return;

  std::uint32_t id = kNoClient;
  AttachReply reply;
  if (const auto request = decode_request(frame->bytes)) {
    reply = attach(*request, *peer, &id);
  } else {
    reply = refuse(request.error().code, request.error().message);
  }
  const auto bytes = std::as_bytes(std::span(&reply, 1));
  if (reply.code != 0) {
    log(LogLevel::kWarning,
        fmt::format("refused to attach pid {}: {}", peer->pid, reply.message.data()));
    [[maybe_unused]] const auto sent = send_frame(socket.get(), bytes);
    return;
  }
  Connected& client = clients_.at(id);
  const UniqueFd page(::open(page_path(files_.directory(), id).c_str(), O_RDWR | O_CLOEXEC));
  std::vector<int> fds{files_.control_fd_read_only(), page.get(), doorbell_.get()};
  for (const UniqueFd& segment : files_.segments()) fds.push_back(segment.get());
  // The old connection's registration ends with its descriptor.
  client.socket.reset();
  if (page && send_frame(socket.get(), bytes, fds)) {
    epoll_event event{.events = EPOLLRDHUP, .data = {.u64 = tag(Tag::kSocket, id)}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event) == 0)
      client.socket = std::move(socket);
    return;
  }
  if (!page) {
    reply = refuse(Code::kLimit, kNoDescriptors);
    [[maybe_unused]] const auto sent =
        send_frame(socket.get(), std::as_bytes(std::span(&reply, 1)));
  }
  const PageView mapped(client.page.data(), control_.index_slots());
  if (mapped.header().joined.load(std::memory_order_seq_cst) == 0)
    gone(id, "could not be answered");
}

AttachReply DaemonLoop::attach(const AttachRequest& request, const Peer& peer, std::uint32_t* id) {
  AttachReply reply =
      request.client == kNoClient ? attach_new(request, peer, id) : attach_again(request, peer, id);
  if (reply.code != 0) return reply;
  const ControlHeader& header = control_.header();
  reply.client = *id;
  reply.serial = control_.client(*id).serial.load(std::memory_order_relaxed);
  reply.segment_count = header.segment_count;
  reply.boot = header.boot;
  reply.epoch = header.epoch.load(std::memory_order_relaxed);
  return reply;
}

AttachReply DaemonLoop::attach_new(const AttachRequest& request, const Peer& peer,
                                   std::uint32_t* id) {
  if (drain_until_.load(std::memory_order_relaxed) != 0)
    return refuse(Code::kUnavailable, "the daemon is stopping");
  std::uint32_t free_id = 0;
  while (free_id < kClientsMax && control_.client(free_id).state.load(std::memory_order_relaxed) !=
                                      static_cast<std::uint32_t>(ClientState::kFree)) {
    ++free_id;
  }
  if (free_id == kClientsMax) {
    return refuse(Code::kLimit,
                  fmt::format("{} processes are attached, which is the limit", kClientsMax));
  }
  ControlHeader& header = control_.header();
  const std::uint64_t serial = header.next_client_serial.fetch_add(1, std::memory_order_relaxed);
  if (serial > kSerialMax)
    return refuse(Code::kLimit, "this arena has served its last client: remove it and start anew");
  UniqueFd pidfd = open_pidfd(peer.pid);
  const std::uint64_t start_time = pidfd ? start_time_of(peer.pid) : 0;
  if (!pidfd || start_time == 0) {
    if (errno == EMFILE || errno == ENFILE) return refuse(Code::kLimit, kNoDescriptors);
    return refuse(Code::kPermission,
                  fmt::format("process {} cannot be watched (another pid namespace?)", peer.pid));
  }

  const std::string path = page_path(files_.directory(), free_id);
  const PageLayout layout = page_layout(control_.index_slots());
  ::unlink(path.c_str());
  auto fd = arena::create_segment(path, layout.bytes, 0600);
  if (!fd) return refuse(fd.error().code, fd.error().message);
  auto page = arena::map_segment(fd->get(), layout.bytes, {.access = arena::Access::kReadWrite});
  if (!page) return refuse(page.error().code, page.error().message);
  auto& page_header = *new (page->data()) PageHeader{};
  page_header.magic = kPageMagic;
  page_header.version = kControlVersion;
  page_header.client = free_id;
  page_header.serial = serial;
  page_header.label = label_bytes(label_text(request.label));

  ClientEntry& entry = control_.client(free_id);
  entry.serial.store(serial, std::memory_order_relaxed);
  entry.pid.store(peer.pid, std::memory_order_relaxed);
  entry.start_time.store(start_time, std::memory_order_relaxed);
  KILL_POINT("attach.half_written");
  entry.reserved_bytes.store(0, std::memory_order_relaxed);
  entry.leases.store(0, std::memory_order_relaxed);
  KILL_POINT("attach.before_entry");
  entry.state.store(static_cast<std::uint32_t>(ClientState::kAttached), std::memory_order_release);
  KILL_POINT("attach.after_entry");
  store_->add_client(free_id, PageView(page->data(), control_.index_slots()));
  if (auto watched = watch(pidfd.get(), tag(Tag::kDeath, free_id)); !watched) {
    store_->client_gone(free_id);
    ::unlink(path.c_str());
    return refuse(watched.error().code, watched.error().message);
  }
  clients_.insert_or_assign(
      free_id, Connected{.socket = {}, .pidfd = std::move(pidfd), .page = std::move(*page)});
  *id = free_id;
  log(LogLevel::kInfo,
      fmt::format("client {} attached: pid {} {}", free_id, peer.pid, label_text(request.label)));
  return {};
}

AttachReply DaemonLoop::attach_again(const AttachRequest& request, const Peer& peer,
                                     std::uint32_t* id) {
  const auto known = clients_.find(request.client);
  const bool same_arena = request.boot == control_.header().boot;
  if (!same_arena || known == clients_.end() || request.client >= kClientsMax) {
    return refuse(Code::kDetached, "this arena does not know the client: attach anew");
  }
  const ClientEntry& entry = control_.client(request.client);
  if (entry.serial.load(std::memory_order_relaxed) != request.serial ||
      entry.pid.load(std::memory_order_relaxed) != peer.pid) {
    return refuse(Code::kDetached, "the client's number belongs to another process: attach anew");
  }
  *id = request.client;
  log(LogLevel::kInfo, fmt::format("client {} attached again: pid {}", request.client, peer.pid));
  return {};
}

void DaemonLoop::gone(std::uint32_t id, std::string_view why) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  store_->client_gone(id);
  ::unlink(page_path(files_.directory(), id).c_str());
  clients_.erase(found);
  log(LogLevel::kInfo, fmt::format("client {} {}", id, why));
}

void DaemonLoop::drop_silent_greetings(Instant t) {
  std::erase_if(greetings_, [t](const auto& entry) { return t >= entry.second.deadline; });
}

// The first write of a page costs several times a later one: done here once, so that no put pays
// for it.
void DaemonLoop::touch_arena(const std::stop_token& stop) {
  const ControlHeader& header = control_.header();
  for (std::uint32_t i = 0; i < header.segment_count; ++i) {
    const std::uint64_t bytes = header.segment_bytes[i];
    auto mapping = arena::map_segment(files_.segments()[i].get(), bytes,
                                      {.access = arena::Access::kReadWrite,
                                       .huge_pages = options_.huge_pages == HugePages::kTry});
    if (!mapping) {
      log(LogLevel::kWarning,
          fmt::format("cannot touch segment {}: {}", i, mapping.error().message));
      touched_bytes_.fetch_add(bytes, std::memory_order_relaxed);
      continue;
    }
    for (std::uint64_t at = 0; at < bytes && !stop.stop_requested(); at += kTouchStepBytes) {
      const std::uint64_t step = std::min(kTouchStepBytes, bytes - at);
      [[maybe_unused]] const auto touched =
          arena::populate(mapping->bytes().subspan(at, step), arena::Touch::kWrite);
      touched_bytes_.fetch_add(step, std::memory_order_relaxed);
    }
  }
}

void DaemonLoop::drain(Instant deadline) noexcept {
  drain_until_.store(std::max<Instant>(deadline, 1), std::memory_order_release);
  raise_eventfd(control_event_.get());
}

void DaemonLoop::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  raise_eventfd(control_event_.get());
}

DaemonHealth DaemonLoop::health() const noexcept {
  DaemonHealth h;
  h.loop_heartbeat_ns = heartbeat_.load(std::memory_order_relaxed);
  h.draining = drain_until_.load(std::memory_order_relaxed) != 0;
  const auto total = static_cast<double>(control_.header().arena_bytes);
  h.touched_share =
      options_.touch ? static_cast<double>(touched_bytes_.load(std::memory_order_relaxed)) / total
                     : 1.0;
  h.late_requests = store_->late_requests();
  h.ready = !h.draining && !stop_.load(std::memory_order_relaxed) && h.touched_share >= 1.0;
  return h;
}

Status DaemonLoop::watch(int fd, std::uint64_t what) noexcept {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = what}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail(Code::kIo, fmt::format("cannot watch a descriptor: {}", std::strerror(errno)));
  }
  return {};
}

void DaemonLoop::log(LogLevel level, std::string_view text) const {
  if (options_.log) options_.log(level, text);
}

Daemon::Daemon(std::unique_ptr<DaemonLoop> loop) : loop_(std::move(loop)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::open(DaemonOptions options) {
  auto loop = DaemonLoop::open(std::move(options));
  if (!loop) return std::unexpected(loop.error());
  return std::unique_ptr<Daemon>(new Daemon(std::move(*loop)));
}

void Daemon::run() {
  loop_->run();
}
void Daemon::drain(Instant deadline) noexcept {
  loop_->drain(deadline);
}
void Daemon::stop() noexcept {
  loop_->stop();
}
DaemonHealth Daemon::health() const noexcept {
  return loop_->health();
}
bool Daemon::adopted() const noexcept {
  return loop_->adopted();
}

}  // namespace sluice::store
