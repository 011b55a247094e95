#include "http/auth.h"

#include <cstddef>

namespace sluice::http {
namespace {

bool is_bearer(std::string_view scheme) noexcept {
  constexpr std::string_view kScheme = "bearer ";
  if (scheme.size() != kScheme.size()) return false;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = scheme[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kScheme[i]) return false;
  }
  return true;
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) noexcept {
  // The loop always runs over the secret's length; a given text of another length is compared with
  // the secret itself and refused by `different` alone.
  volatile unsigned char different = given.size() == secret.size() ? 0 : 1;
  const std::string_view other = given.size() == secret.size() ? given : secret;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    different = static_cast<unsigned char>(
        different | (static_cast<unsigned char>(other[i]) ^ static_cast<unsigned char>(secret[i])));
  }
  return different == 0;
}

bool bearer_matches(std::string_view authorization, std::string_view token) noexcept {
  constexpr std::size_t kSchemeBytes = 7;
  if (token.empty() || authorization.size() < kSchemeBytes) return false;
  if (!is_bearer(authorization.substr(0, kSchemeBytes))) return false;
  return equal_in_constant_time(authorization.substr(kSchemeBytes), token);
}

}  // namespace sluice::http
