#include "http/exchange.h"

#include "http/framing.h"

namespace sluice::http {

std::string_view ExchangeHead::header(std::string_view name) const noexcept {
  for (const auto& [known, value] : headers) {
    if (equal_ignoring_case(known, name)) return value;
  }
  return {};
}

}  // namespace sluice::http
