// incoming.h: one HTTP/1.1 request as the stub engine reads it. Pure.
//
// The stub's only client is the proxy under test, so everything that is not strictly well-formed is
// called malformed: it is counted, and a test sees that the proxy let it through.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::stub {

struct Incoming {
  std::string method;
  std::string target;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::size_t head_bytes = 0;
  std::size_t body_bytes = 0;
  bool chunked = false;
  bool keep_alive = true;

  std::string_view header(std::string_view name) const noexcept;
  std::string_view path() const noexcept {
    return std::string_view(target).substr(0, target.find('?'));
  }
};

enum class Parsed { kIncomplete, kComplete, kMalformed };

// Reads a request's head at the start of `text`.
Parsed parse_head(std::string_view text, Incoming& out);

// Reads a chunked body at the start of `text`, trailers included; `used` is what it took.
Parsed parse_chunked(std::string_view text, std::string& body, std::size_t& used);

}  // namespace sluice::stub
