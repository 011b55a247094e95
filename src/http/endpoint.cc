#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include "http/framing.h"
#include "http/upstream.h"

namespace sluice::http {

namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::size_t kHostBytesMax = 253;

bool is_ipv6(const std::string& text) noexcept {
  in6_addr address{};
  return ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > kHostBytesMax) return false;
  for (const char c : text) {
    const bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.' || c == '_';
    if (!known) return false;
  }
  return true;
}

std::unexpected<Error> refuse(std::string_view url) {
  return fail(
      Code::kInvalidArgument,
      fmt::format("'{}' is not of the form http://HOST:PORT, HOST a name, an IPv4 address or "
                  "an IPv6 address in brackets",
                  url));
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view url) {
  if (!equal_ignoring_case(url.substr(0, kScheme.size()), kScheme)) return refuse(url);
  std::string_view rest = url.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  Endpoint endpoint;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return refuse(url);
    endpoint.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!is_ipv6(endpoint.host)) return refuse(url);
  } else {
    const std::size_t colon = rest.find(':');
    endpoint.host = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon);
    if (!is_name(endpoint.host)) return refuse(url);
  }
  if (rest.empty()) return endpoint;
  if (rest.front() != ':') return refuse(url);
  rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), endpoint.port);
  if (rest.empty() || error != std::errc() || end != rest.data() + rest.size() ||
      endpoint.port == 0) {
    return refuse(url);
  }
  return endpoint;
}

std::string Endpoint::text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return brackets ? fmt::format("{}[{}]:{}", kScheme, host, port)
                  : fmt::format("{}{}:{}", kScheme, host, port);
}

}  // namespace sluice::http
