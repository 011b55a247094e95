#include "proxy/instance.h"

#include <algorithm>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "proxy/roles.h"

namespace sluice::proxy {
namespace {

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

std::string role_names() {
  std::string out;
  for (const Role& role : kRoles) out += fmt::format("{}{}", out.empty() ? "" : ", ", role.name);
  return out;
}

}  // namespace

Result<InstanceSpec> make_instance(std::string_view role, std::string_view url, bool allow_remote) {
  const auto index = role_index(role);
  if (!index) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not a role: {}", role.substr(0, 64), role_names()));
  }
  auto endpoint = http::Endpoint::parse(url);
  if (!endpoint) return std::unexpected(endpoint.error());
  if (!allow_remote && !is_loopback(endpoint->host)) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not on this machine: an engine trusts whoever reaches it, and "
                            "what is said to it travels in the clear; allow-remote-engines permits "
                            "it on a network of your own",
                            endpoint->text()));
  }
  return InstanceSpec{.role = *index, .endpoint = std::move(*endpoint)};
}

Result<InstanceSpec> parse_instance(std::string_view text, bool allow_remote) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not ROLE=URL, such as decode=http://127.0.0.1:8000",
                            text.substr(0, 256)));
  }
  return make_instance(text.substr(0, equals), text.substr(equals + 1), allow_remote);
}

std::chrono::milliseconds reuse_time(std::chrono::milliseconds engine_keep_alive) noexcept {
  using std::chrono::milliseconds;
  const milliseconds margin = std::max(milliseconds(250), engine_keep_alive / 5);
  return engine_keep_alive > margin ? engine_keep_alive - margin : milliseconds(0);
}

}  // namespace sluice::proxy
