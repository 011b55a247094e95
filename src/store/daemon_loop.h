// daemon_loop.h: descriptors and time around an ObjectStore: attach socket, doorbell, deaths,
// deadlines.
//
// Invariant: a client's page stays mapped until ObjectStore::client_gone() returned. A client is
//            gone when its pidfd says so, or when its page says detached; a closed socket proves
//            nothing.
// Threads:   run() on one thread. The background touch runs on its own thread and shares nothing
//            but the data segments.
// Failure:   a failing client costs that client its connection, never the loop.
// Limits:    kClientsMax clients; connections that send no request are closed after two seconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "arena/shared_segment.h"
#include "base/unique_fd.h"
#include "store/arena_files.h"
#include "store/attach_frames.h"
#include "store/daemon.h"
#include "store/object_store.h"
#include "store/unix_socket.h"

namespace sluice::store {

class DaemonLoop {
 public:
  static Result<std::unique_ptr<DaemonLoop>> open(DaemonOptions options);
  ~DaemonLoop();
  DaemonLoop(const DaemonLoop&) = delete;
  DaemonLoop& operator=(const DaemonLoop&) = delete;

  void run();
  void drain(Instant deadline) noexcept;
  void stop() noexcept;
  DaemonHealth health() const noexcept;
  bool adopted() const noexcept { return files_.adopted(); }

 private:
  struct Connected {
    UniqueFd socket;
    UniqueFd pidfd;
    arena::Mapping page;
  };
  struct Greeting {  // connected, request not yet received
    UniqueFd socket;
    Instant deadline = 0;
  };

  DaemonLoop(DaemonOptions options, ArenaFiles files);
  Status start();
  Status adopt_clients();
  bool turn();            // serves what is there; false when there was nothing
  void sleep(Instant t);  // until something happens
  void accept_all();
  bool refuse_without_descriptors();
  void set_listening(bool listening) noexcept;
  void greet(int socket);
  AttachReply attach(const AttachRequest& request, const Peer& peer, std::uint32_t* id);
  AttachReply attach_new(const AttachRequest& request, const Peer& peer, std::uint32_t* id);
  AttachReply attach_again(const AttachRequest& request, const Peer& peer, std::uint32_t* id);
  void gone(std::uint32_t id, std::string_view why);
  void drop_silent_greetings(Instant t);
  void touch_arena(const std::stop_token& stop);
  Status watch(int fd, std::uint64_t tag) noexcept;
  void log(LogLevel level, std::string_view text) const;

  DaemonOptions options_;
  ArenaFiles files_;
  ControlView control_;
  std::unique_ptr<ObjectStore> store_;
  UniqueFd epoll_, listener_, doorbell_, control_event_;
  bool rung_ = false;         // the doorbell's count was not taken yet
  Instant listen_again_ = 0;  // while set, the listener is not watched: no descriptor is left
  UniqueFd spare_;  // given up to accept and refuse a client when no other descriptor is left
  std::map<std::uint32_t, Connected> clients_;
  std::map<int, Greeting> greetings_;  // by socket

  std::atomic<bool> stop_{false};
  std::atomic<Instant> drain_until_{0};
  std::atomic<Instant> heartbeat_{0};
  std::atomic<std::uint64_t> touched_bytes_{0};
  std::jthread toucher_;  // last: ends before what it uses
};

}  // namespace sluice::store
