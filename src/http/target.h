// target.h: the path and query of a request, decoded. Pure; refuses what is not well-formed instead
// of guessing.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <sluice/error.h>

namespace sluice::http {

struct Target {
  std::string path;  // still percent-encoded: '/' inside a segment stays distinguishable
  std::map<std::string, std::string> query;  // decoded; a name given twice is refused
};

Result<std::string> percent_decode(std::string_view text);  // refuses a broken escape and NUL
std::string percent_encode(std::string_view text);          // all but A-Za-z0-9-_.~
Result<Target> parse_target(
    std::string_view target);  // refuses anything that does not start with '/'

}  // namespace sluice::http
