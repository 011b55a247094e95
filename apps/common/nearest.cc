#include "common/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

namespace sluice::app {
namespace {

constexpr std::size_t kCompareMax = 256;

char folded(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kCompareMax);
  b = b.substr(0, kCompareMax);
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0u : 1u)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view wanted, std::span<const std::string> known) {
  std::size_t best = SIZE_MAX;
  const std::string* found = nullptr;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(wanted, candidate);
    if (distance < best) {
      best = distance;
      found = &candidate;
    }
  }
  const std::size_t allowed = std::max<std::size_t>(2, wanted.size() / 3);
  if (found == nullptr || best > allowed || best >= std::max(wanted.size(), found->size())) {
    return std::nullopt;
  }
  return *found;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string> known) {
  const auto found = nearest(wanted, known);
  return found ? fmt::format(" (did you mean '{}'?)", *found) : std::string();
}

}  // namespace sluice::app
