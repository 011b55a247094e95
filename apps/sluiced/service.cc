#include "sluiced/service.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/client.h>
#include <sluice/version.h>

#include "base/unique_fd.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/quantity.h"
#include "sluiced/admin.h"
#include "sluiced/watcher.h"
#include "store/scrub.h"

namespace sluice::daemon {
namespace {

int exit_code_of(Code code) {
  switch (code) {
    case Code::kUnavailable:
      return app::kExitBusy;
    case Code::kInvalidArgument:
    case Code::kLimit:
      return app::kExitBadConfig;
    default:
      return app::kExitError;
  }
}

int leave(const app::Log& log, std::string_view what, const Error& error) {
  log.error(fmt::format("{}: {}", what, error.message));
  return exit_code_of(error.code);
}

// Written beside the arena and renamed, so that a reader sees no port or the whole of it.
Status write_port_file(const std::string& path, std::uint16_t port) {
  const std::string text = fmt::format("{}\n", port);
  const std::string partial = path + ".new";
  const UniqueFd fd(
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
  const bool written =
      fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(partial.c_str(), path.c_str()) != 0) {
    return fail(Code::kIo, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  return {};
}

// Removes the port file when the daemon leaves by a door it chose.
class PortFile {
 public:
  explicit PortFile(std::string path) : path_(std::move(path)) {}
  ~PortFile() {
    ::unlink(path_.c_str());
    // The daemon that leaves for good takes its folder away, and could not while this file was in
    // it; a folder with anything else in it stays.
    ::rmdir(path_.substr(0, path_.rfind('/')).c_str());
  }
  PortFile(const PortFile&) = delete;
  PortFile& operator=(const PortFile&) = delete;

 private:
  std::string path_;
};

Result<std::unique_ptr<Admin>> open_admin(const Invocation& invocation, const app::Log& log,
                                          Watcher& watcher) {
  const app::DaemonSettings& settings = invocation.settings;
  return Admin::open({.host = settings.admin_host,
                      .port = settings.admin_port,
                      .token = invocation.token,
                      .directory = settings.store.directory,
                      .body_bytes_max = settings.body_bytes_max,
                      .health = [&watcher] { return watcher.health(); },
                      .log = &log});
}

// Published objects of an earlier daemon stay; their bytes are checked while they are served
// already.
void scrub_what_was_left(const std::string& directory, const std::stop_token& stop,
                         const app::Log& log) {
  const auto client =
      Client::attach({.directory = directory, .label = "sluiced scrub", .populate_bytes_max = 0});
  if (!client) {
    log.error(fmt::format("the objects taken over are not checked: {}", client.error().message));
    return;
  }
  const auto result =
      store::scrub(**client, stop, [&log](std::string_view key, std::string_view reason) {
        log.error(fmt::format("{} is damaged and is removed: {}", key, reason));
      });
  log.info(
      fmt::format("checked {} objects taken over, removed {}", result.checked, result.removed));
}

}  // namespace

int run_service(Invocation invocation) {
  app::DaemonSettings& settings = invocation.settings;
  const app::Log log("sluiced", settings.log_level, settings.log_json);
  settings.store.log = [&log](store::LogLevel level, std::string_view message) {
    log(level, message);
  };

  // Before any thread exists, so that every thread inherits the blocked signals and only the
  // watcher takes them.
  auto watching = Watcher::open({.notify_socket = invocation.notify_socket,
                                 .watchdog_us = invocation.watchdog_us,
                                 .drain_timeout = settings.drain_timeout,
                                 .log = &log});
  if (!watching) return leave(log, "start", watching.error());
  Watcher& watcher = **watching;

  // The port first: a taken one must not cost the arena's memory.
  std::unique_ptr<Admin> admin;
  if (settings.admin) {
    auto opened = open_admin(invocation, log, watcher);
    if (!opened) return leave(log, "admin interface", opened.error());
    admin = std::move(*opened);
  }
  const std::string directory = settings.store.directory;
  const std::uint64_t arena_bytes = settings.store.arena_bytes;
  auto daemon = store::Daemon::open(std::move(settings.store));
  if (!daemon) return leave(log, "arena", daemon.error());

  std::optional<PortFile> port_file;
  if (admin) {
    const std::string path = directory + "/admin.port";
    if (const auto written = write_port_file(path, admin->port()); !written) {
      return leave(log, "admin interface", written.error());
    }
    port_file.emplace(path);
  }
  log.info(
      fmt::format("sluiced {} serves arena '{}' in {} ({}), admin {}", kVersion, settings.arena,
                  directory, app::format_size(arena_bytes),
                  admin ? fmt::format("http://{}:{}", settings.admin_host, admin->port()) : "off"));
  watcher.start(**daemon);
  if (admin) admin->start();
  std::jthread scrubber;
  if ((*daemon)->adopted()) {
    scrubber = std::jthread(
        [&](const std::stop_token& stop) { scrub_what_was_left(directory, stop, log); });
  }
  (*daemon)->run();
  scrubber = {};
  if (admin) admin->stop();
  watcher.stop();
  return app::kExitOk;
}

}  // namespace sluice::daemon
