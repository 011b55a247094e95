#include "sluice-proxy/proxy_settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <sluice/object_key.h>

#include "common/log.h"
#include "common/quantity.h"
#include "common/setting_rows.h"

namespace sluice::proxy_app {
namespace {

using std::chrono::milliseconds;

using Row = app::SettingRow<ProxySettings>;
using app::assign;

Status text(const std::string& value, std::string& to) {
  to = value;
  return {};
}

template <class T>
Status count(const std::string& value, std::uint64_t min, std::uint64_t max, T& to) {
  const auto parsed = app::parse_count(value, max);
  if (!parsed) return std::unexpected(parsed.error());
  if (*parsed < min) return fail(Code::kInvalidArgument, fmt::format("must be {} or more", min));
  to = static_cast<T>(*parsed);
  return {};
}

Status duration(const std::string& value, milliseconds min, milliseconds& to) {
  const auto parsed = app::parse_duration(value);
  if (!parsed) return std::unexpected(parsed.error());
  to = std::chrono::duration_cast<milliseconds>(*parsed);
  if (to < min)
    return fail(Code::kInvalidArgument, fmt::format("must be {} ms or more", min.count()));
  return {};
}

template <class T>
Status size(const std::string& value, std::uint64_t min, T& to) {
  const auto parsed = app::parse_size(value);
  if (!parsed) return std::unexpected(parsed.error());
  if (*parsed < min)
    return fail(Code::kInvalidArgument, fmt::format("must be {} bytes or more", min));
  to = static_cast<T>(*parsed);
  return {};
}

template <class T>
Status either(const std::string& value, std::string_view first, T first_value,
              std::string_view second, T second_value, T& to) {
  if (value != first && value != second) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is neither {} nor {}", value, first, second));
  }
  to = value == first ? first_value : second_value;
  return {};
}

Status apply_host(const std::string& value, ProxySettings& to) {
  std::string host = value == "localhost" ? "127.0.0.1" : value;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  in_addr v4{};
  in6_addr v6{};
  bool loopback = false;
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    loopback = (ntohl(v4.s_addr) >> 24) == 127;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    loopback = IN6_IS_ADDR_LOOPBACK(&v6);
  } else {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not an IP address: 127.0.0.1, ::1 or 0.0.0.0", value));
  }
  to.proxy.host = std::move(host);
  to.proxy.beyond_loopback = !loopback;
  return {};
}

// What every pool has; a role's own row follows it in the table and so wins.
Status every_pool(const std::string& value, std::uint32_t sched::PoolPolicy::* member,
                  std::uint64_t min, ProxySettings& to) {
  std::uint32_t number = 0;
  if (const auto done = count(value, min, 1'000'000, number); !done) return done;
  for (sched::PoolPolicy& pool : to.proxy.pools.pools) pool.*member = number;
  return {};
}

Status one_pool(const std::string& value, std::size_t role, ProxySettings& to) {
  if (value.empty()) return {};
  return count(value, 1, 1'000'000, to.proxy.pools.pools[role].running_max);
}

using S = ProxySettings;
using V = const std::string&;

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {{"host", "ADDRESS", "127.0.0.1",
        "Address that clients reach the proxy at, IPv4 or IPv6. Beyond loopback a token is "
        "needed."},
       apply_host},
      {{"port", "PORT", "8080", "Port that clients reach the proxy at; 0: any free one."},
       [](V v, S& to) { return count(v, 0, 65535, to.proxy.port); }},
      {{"threads", "COUNT", "1", "Threads that serve requests, each with its own connections."},
       [](V v, S& to) { return count(v, 1, 256, to.proxy.threads); }},
      {{"arena", "NAME|off", "default",
        "Arena in which features are looked up and hand-offs are ended; off: none."},
       [](V v, S& to) -> Status {
         to.use_arena = v != "off";
         to.proxy.arena.emplace().arena = v;
         return {};
       }},
      {{"arena-directory", "PATH", "", "Folder of the arena; wins over its name."},
       [](V v, S& to) { return text(v, to.proxy.arena->directory); }},
      {{"tenant", "NAME", "default", "Tenant whose features and hand-offs these requests use."},
       [](V v, S& to) {
         to.proxy.arena->tenant = v;
         return text(v, to.proxy.settings.tenant);
       }},
      {{"token-file", "PATH", "",
        "File (mode 0600) with the bearer token of clients and of /v1/instances. The variable "
        "SLUICE_TOKEN may hold the token instead."},
       [](V v, S& to) { return text(v, to.token_file); }},
      {{"require-token", "auto|always", "auto",
        "Whether clients on loopback need the token as well; beyond loopback they always do."},
       [](V v, S& to) {
         return either(v, "auto", false, "always", true, to.proxy.settings.token_always);
       }},
      {{"engine-token-file", "PATH", "",
        "File (mode 0600) with the bearer token that engines want. The variable "
        "SLUICE_ENGINE_TOKEN may hold the token instead."},
       [](V v, S& to) { return text(v, to.engine_token_file); }},
      {{"allow-remote-engines", "true|false", "false",
        "Engines may be on other machines. They trust whoever reaches them, over plain HTTP."},
       [](V v, S& to) {
         return assign(app::parse_bool(v), to.proxy.settings.allow_remote_engines);
       }},
      {{"on-failure", "fallback|fail", "fallback",
        "When a stage fails: go on without it and count that, or fail the request."},
       [](V v, S& to) {
         return either(v, "fallback", proxy::OnFailure::kFallback, "fail", proxy::OnFailure::kFail,
                       to.proxy.settings.on_failure);
       }},
      {{"encoder-empty", "prefill|refuse", "prefill",
        "When no encoder is healthy: prefill encodes by itself, or the request is refused."},
       [](V v, S& to) {
         return either(v, "prefill", proxy::WhenEncoderEmpty::kPrefill, "refuse",
                       proxy::WhenEncoderEmpty::kRefuse, to.proxy.settings.when_encoder_empty);
       }},
      {{"decode-dispatch", "after_commit|at_first_group", "after_commit",
        "When decode is asked: when prefill has answered, or when the first layer group of the "
        "hand-off is there."},
       [](V v, S& to) {
         return either(v, "after_commit", proxy::DecodeDispatch::kAfterCommit, "at_first_group",
                       proxy::DecodeDispatch::kAtFirstGroup, to.proxy.settings.decode_dispatch);
       }},
      {{"forward-media", "true|false", "false",
        "Send encoded media to prefill and decode all the same, instead of references."},
       [](V v, S& to) { return assign(app::parse_bool(v), to.proxy.settings.forward_media); }},
      {{"allow-image-embeds", "true|false", "false",
        "Clients may send embeddings, with their data, in the place of an image."},
       [](V v, S& to) { return assign(app::parse_bool(v), to.proxy.settings.allow_image_embeds); }},
      {{"tries-max", "COUNT", "3",
        "How often one stage of a request is tried, the first included."},
       [](V v, S& to) { return count(v, 1, 16, to.proxy.settings.tries_max); }},
      {{"retry-share", "SHARE", "0.2", "Retries, as a share of all requests, at most."},
       [](V v, S& to) { return assign(app::parse_share(v), to.proxy.pools.retry_share); }},
      {{"running-max", "COUNT", "256", "Requests that one engine is given at a time."},
       [](V v, S& to) { return every_pool(v, &sched::PoolPolicy::running_max, 1, to); }},
      {{"running-max-encoder", "COUNT", "", "The same for encoders; empty: running-max."},
       [](V v, S& to) { return one_pool(v, proxy::kEncoderRole, to); }},
      {{"running-max-prefill", "COUNT", "", "The same for prefill engines; empty: running-max."},
       [](V v, S& to) { return one_pool(v, proxy::kPrefillRole, to); }},
      {{"running-max-decode", "COUNT", "", "The same for decode engines; empty: running-max."},
       [](V v, S& to) { return one_pool(v, proxy::kDecodeRole, to); }},
      {{"queue-max", "COUNT", "256",
        "Requests that wait for a pool; one more is answered 429 with Retry-After."},
       [](V v, S& to) { return every_pool(v, &sched::PoolPolicy::queue_max, 0, to); }},
      {{"request-timeout", "DURATION", "10m",
        "Deadline of a request that does not say x-sluice-timeout-ms."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.settings.request_timeout); }},
      {{"request-timeout-max", "DURATION", "1h", "Longest deadline that a request may say."},
       [](V v, S& to) {
         return duration(v, milliseconds(1), to.proxy.settings.request_timeout_max);
       }},
      {{"engine-keep-alive", "DURATION", "5s",
        "How long engines keep an idle connection, unless they say less. It is used again only "
        "while it has idled clearly less; too short for that: never."},
       [](V v, S& to) {
         return duration(v, milliseconds(0), to.proxy.settings.engine_keep_alive);
       }},
      {{"connect-timeout", "DURATION", "2s", "For a connection to an engine."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.settings.connect_timeout); }},
      {{"health-interval", "DURATION", "2s", "Between two probes of an engine."},
       [](V v, S& to) { return duration(v, milliseconds(10), to.proxy.settings.health_interval); }},
      {{"health-timeout", "DURATION", "1s", "For the answer to a probe."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.settings.health_timeout); }},
      {{"health-failures", "COUNT", "3", "Bad signs in a row after which an engine is not used."},
       [](V v, S& to) { return count(v, 1, 1000, to.proxy.pools.health.failures_to_evict); }},
      {{"health-successes", "COUNT", "2", "Good probes in a row after which it is used again."},
       [](V v, S& to) { return count(v, 1, 1000, to.proxy.pools.health.successes_to_readmit); }},
      {{"body-bytes-max", "SIZE", "64MiB", "Largest body of a request."},
       [](V v, S& to) { return size(v, 1024, to.proxy.settings.body_bytes_max); }},
      {{"answer-bytes-max", "SIZE", "64MiB", "Largest answer that is not streamed."},
       [](V v, S& to) { return size(v, 1024, to.proxy.settings.answer_bytes_max); }},
      {{"header-bytes-max", "SIZE", "16KiB", "Largest header of a request."},
       [](V v, S& to) { return size(v, 256, to.proxy.limits.header_bytes_max); }},
      {{"fields-max", "COUNT", "100", "Fields of a request's header."},
       [](V v, S& to) { return count(v, 1, 10'000, to.proxy.limits.fields_max); }},
      {{"header-timeout", "DURATION", "10s", "From a header's first byte to its last."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.limits.header_timeout); }},
      {{"body-idle-timeout", "DURATION", "30s", "Between two pieces of a body."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.limits.body_idle_timeout); }},
      {{"idle-timeout", "DURATION", "75s",
        "How long a client's connection is kept without a request."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.limits.idle_timeout); }},
      {{"write-timeout", "DURATION", "30s", "How long a client may take nothing of its answer."},
       [](V v, S& to) { return duration(v, milliseconds(1), to.proxy.limits.write_timeout); }},
      {{"connections-max", "COUNT", "10000", "Connections of clients."},
       [](V v, S& to) { return count(v, 1, 1'000'000, to.proxy.limits.connections_max); }},
      {{"stream-buffer-bytes-max", "SIZE", "256KiB",
        "What the kernel holds of an answer that a client is slow to read."},
       [](V v, S& to) { return size(v, 4096, to.proxy.limits.stream_buffer_bytes_max); }},
      {{"log-level", "debug|info|warning|error", "info",
        "How much is logged, to the standard error stream."},
       [](V v, S& to) { return assign(app::parse_log_level(v), to.log_level); }},
      {{"log-format", "text|json", "text", "One line of text or one JSON object per entry."},
       [](V v, S& to) { return either(v, "text", false, "json", true, to.log_json); }},
      {{"access-log", "true|false", "true",
        "One JSON object per request on the standard output stream."},
       [](V v, S& to) { return assign(app::parse_bool(v), to.access_log); }},
      {{"drain-timeout", "DURATION", "30s", "After SIGTERM: how long running requests may take."},
       [](V v, S& to) { return duration(v, milliseconds(0), to.drain_timeout); }},
  };
  return kRows;
}

Status check_combinations(ProxySettings& settings) {
  const proxy::Settings& proxy = settings.proxy.settings;
  if (proxy.request_timeout > proxy.request_timeout_max) {
    return fail(Code::kInvalidArgument, "request-timeout cannot be above request-timeout-max");
  }
  const auto key = ObjectKey::make({.tenant = proxy.tenant,
                                    .kind = ObjectKind::kKvHandoff,
                                    .model = "kv",
                                    .revision = "1",
                                    .encoder = "none",
                                    .dtype = "uint8",
                                    .id = std::string(33, '0')});
  if (!key) return fail(Code::kInvalidArgument, fmt::format("tenant: {}", key.error().message));
  const bool named = settings.proxy.arena && !settings.proxy.arena->directory.empty();
  if (!settings.use_arena && !named) settings.proxy.arena.reset();
  return {};
}

}  // namespace

std::span<const app::Setting> proxy_settings_table() {
  static const std::vector<app::Setting> kTable = app::settings_of(std::span(rows()));
  return kTable;
}

Result<ProxySettings> resolve_proxy_settings(std::span<const app::Effective> effective) {
  ProxySettings settings;
  for (std::size_t role = 0; role < proxy::kRoles.size(); ++role)
    settings.proxy.pools.pools[role].role = proxy::kRoles[role].name;
  if (const auto applied = app::apply_rows(std::span(rows()), effective, settings); !applied)
    return std::unexpected(applied.error());
  if (const auto checked = check_combinations(settings); !checked)
    return std::unexpected(checked.error());
  return settings;
}

}  // namespace sluice::proxy_app
