#include "common/daemon_settings.h"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/unique_fd.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "common/setting_rows.h"

namespace sluice::app {
namespace {

constexpr std::uint64_t kArenaBytesMin = std::uint64_t{1} << 20;

using Row = SettingRow<DaemonSettings>;

Result<std::uint32_t> parse_mode(std::string_view text) {
  std::uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || mode > 0777 || (mode & 0700) != 0700 || (mode & 0007) != 0) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is not a directory mode for an arena: "
                                                    "0700 (this user only) or 0770 (its group too)",
                                                    text));
  }
  return mode;
}

Result<std::string> parse_loopback(std::string_view text) {
  if (text == "localhost") return "127.0.0.1";
  std::string host(text);
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    if ((ntohl(v4.s_addr) >> 24) == 127) return host;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_LOOPBACK(&v6)) return host;
  } else {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not an IP address: 127.0.0.1 is usual", text));
  }
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' is not a loopback address: the admin interface listens on this "
                          "machine only; put a reverse "
                          "proxy with TLS in front of 127.0.0.1 to reach it from elsewhere",
                          text));
}

Status one_of(std::string_view text, std::string_view first, std::string_view second) {
  if (text == first || text == second) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' is neither {} nor {}", text, first, second));
}

Status apply_admin_port(const std::string& text, DaemonSettings& to) {
  to.admin = text != "off";
  if (!to.admin) return {};
  const auto port = parse_count(text, 65535);
  if (!port)
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not a port: 0 to 65535, or off", text));
  to.admin_port = static_cast<std::uint16_t>(*port);
  return {};
}

Status apply_objects(const std::string& text, DaemonSettings& to) {
  const auto count = parse_count(text, kObjectsMax);
  if (!count) return std::unexpected(count.error());
  if (*count == 0)
    return fail(Code::kInvalidArgument, "an arena must be able to hold at least one object");
  to.store.objects_max = static_cast<std::uint32_t>(*count);
  return {};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {{"arena", "NAME", "default",
        "Name of the arena: letters, digits, '_', '.' and '-', at most 64. Decides the directory "
        "unless that is set."},
       [](const std::string& v, DaemonSettings& to) -> Status {
         to.arena = v;
         return {};
       }},
      {{"directory", "PATH", "",
        "Folder of the arena, on a memory file system; empty: `/dev/shm/sluice-<uid>-<arena>`."},
       [](const std::string& v, DaemonSettings& to) -> Status {
         to.store.directory = v;
         return {};
       }},
      {{"size", "SIZE", "1GiB", "Memory for objects, taken in full at start."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_size(v), to.store.arena_bytes);
       }},
      {{"segment-size", "SIZE", "0",
        "Size of one shared memory file and so of the largest object; 0: the whole arena in one."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_size(v), to.store.segment_bytes);
       }},
      {{"objects-max", "COUNT", "100000", "Objects that the index can hold."}, apply_objects},
      {{"huge-pages", "never|try", "try",
        "Ask the kernel for huge pages; `try` goes on without them where it gives none."},
       [](const std::string& v, DaemonSettings& to) -> Status {
         to.store.huge_pages = v == "try" ? store::HugePages::kTry : store::HugePages::kNever;
         return one_of(v, "never", "try");
       }},
      {{"mode", "MODE", "0700", "Permissions of the arena's folder, and with it who may attach."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_mode(v), to.store.directory_mode);
       }},
      {{"high-watermark", "SHARE", "0.95",
        "Eviction starts when more than this share of the arena is used."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_share(v), to.store.high_watermark);
       }},
      {{"low-watermark", "SHARE", "0.90", "Eviction ends below this share."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_share(v), to.store.low_watermark);
       }},
      {{"reserved-per-client", "SIZE", "0",
        "Bytes that one process may hold reserved and unpublished; 0: half of the arena."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_size(v), to.store.reserved_bytes_per_client);
       }},
      {{"keep-on-stop", "true|false", "false",
        "A clean stop leaves the arena for the next daemon to adopt, instead of removing it."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_bool(v), to.store.keep_on_stop);
       }},
      {{"touch", "true|false", "true",
        "Write every page once in the background after start, so that no put pays for it. Ready "
        "means that this is done."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_bool(v), to.store.touch);
       }},
      {{"admin-host", "ADDRESS", "127.0.0.1", "Loopback address of the admin interface."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_loopback(v), to.admin_host);
       }},
      {{"admin-port", "PORT|off", "0",
        "Port of the admin interface; 0: any free one, written to `<directory>/admin.port`; off: "
        "none."},
       apply_admin_port},
      {{"token-file", "PATH", "",
        "File (mode 0600) with the bearer token for reading, writing and removing objects over "
        "HTTP. The variable SLUICE_TOKEN may hold the token instead."},
       [](const std::string& v, DaemonSettings& to) -> Status {
         to.token_file = v;
         return {};
       }},
      {{"body-max", "SIZE", "64MiB", "Largest object that may be put over HTTP."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_size(v), to.body_bytes_max);
       }},
      {{"log-level", "debug|info|warning|error", "info",
        "How much is logged, to the standard error stream."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_log_level(v), to.log_level);
       }},
      {{"log-format", "text|json", "text", "One line of text or one JSON object per entry."},
       [](const std::string& v, DaemonSettings& to) -> Status {
         to.log_json = v == "json";
         return one_of(v, "text", "json");
       }},
      {{"drain-timeout", "DURATION", "10s",
        "After SIGTERM: how long running reservations may take to end."},
       [](const std::string& v, DaemonSettings& to) {
         return assign(parse_duration(v), to.drain_timeout);
       }},
  };
  return kRows;
}

Status check_combinations(DaemonSettings& settings) {
  const auto refuse = [](std::string message) {
    return fail(Code::kInvalidArgument, std::move(message));
  };
  store::DaemonOptions& store = settings.store;
  if (store.arena_bytes < kArenaBytesMin) return refuse("size: an arena has at least 1 MiB");
  if (store.segment_bytes > store.arena_bytes) {
    return refuse("segment-size: a segment cannot be larger than the arena (size)");
  }
  if (store.segment_bytes != 0 && store.arena_bytes / store.segment_bytes > kSegmentsMax) {
    return refuse(fmt::format(
        "segment-size: {} segments are more than the {} that an arena may have; make them larger",
        store.arena_bytes / store.segment_bytes, kSegmentsMax));
  }
  if (!(store.low_watermark < store.high_watermark)) {
    return refuse("low-watermark must be below high-watermark");
  }
  if (store.reserved_bytes_per_client > store.arena_bytes) {
    return refuse("reserved-per-client cannot be larger than the arena (size)");
  }
  if (settings.body_bytes_max == 0)
    return refuse("body-max must be above 0; set admin-port to off to have no HTTP interface");
  if (store.directory.empty()) {
    auto directory = store::default_directory(settings.arena);
    if (!directory) return refuse(fmt::format("arena: {}", directory.error().message));
    store.directory = std::move(*directory);
  } else if (store.directory.front() != '/') {
    return refuse(fmt::format("directory: '{}' must be an absolute path", store.directory));
  }
  return {};
}

}  // namespace

std::span<const Setting> daemon_settings_table() {
  static const std::vector<Setting> kTable = settings_of(std::span(rows()));
  return kTable;
}

Result<DaemonSettings> resolve_daemon_settings(std::span<const Effective> effective) {
  DaemonSettings settings;
  if (const auto applied = apply_rows(std::span(rows()), effective, settings); !applied)
    return std::unexpected(applied.error());
  if (const auto checked = check_combinations(settings); !checked)
    return std::unexpected(checked.error());
  return settings;
}

}  // namespace sluice::app
