#include "common/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace sluice::app {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024;
constexpr std::array kSizeUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kKi},
    Unit{"m", kKi* kKi},
    Unit{"g", kKi* kKi* kKi},
    Unit{"t", kKi* kKi* kKi* kKi},
    Unit{"kib", kKi},
    Unit{"mib", kKi* kKi},
    Unit{"gib", kKi* kKi* kKi},
    Unit{"tib", kKi* kKi* kKi* kKi},
    Unit{"kb", 1e3},
    Unit{"mb", 1e6},
    Unit{"gb", 1e9},
    Unit{"tb", 1e12},
};
constexpr std::array kDurationUnits = {
    Unit{"ns", 1},   Unit{"us", 1e3},   Unit{"ms", 1e6},   Unit{"s", 1e9},
    Unit{"m", 60e9}, Unit{"min", 60e9}, Unit{"h", 3600e9}, Unit{"d", 86400e9},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// number x unit, below 2^63; nothing when either part is unknown. Whole numbers stay exact.
std::optional<std::uint64_t> scaled(std::string_view text, std::span<const Unit> units) {
  text = trimmed(text);
  const std::size_t split = text.find_first_not_of("0123456789.");
  const std::string_view digits = text.substr(0, split);
  const std::string unit_name =
      split == std::string_view::npos ? "" : lower(trimmed(text.substr(split)));
  if (digits.empty()) return std::nullopt;
  double factor = 0;
  for (const Unit& unit : units) {
    if (unit.name == unit_name) factor = unit.factor;
  }
  if (factor == 0) return std::nullopt;
  constexpr double kMax = 9.2e18;
  std::uint64_t whole = 0;
  if (const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), whole);
      error == std::errc{} && end == digits.data() + digits.size()) {
    if (static_cast<double>(whole) > kMax / factor) return std::nullopt;
    return whole * static_cast<std::uint64_t>(factor);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (!(value * factor <= kMax)) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(value * factor));
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  if (const auto bytes = scaled(text, kSizeUnits)) return *bytes;
  return fail(
      Code::kInvalidArgument,
      fmt::format("'{}' is not a size: write a number and a unit, for instance 512M, 4G or 1GiB",
                  text));
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  if (trimmed(text) == "0") return std::chrono::nanoseconds(0);
  if (const auto ns = scaled(text, kDurationUnits)) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(*ns));
  }
  return fail(
      Code::kInvalidArgument,
      fmt::format(
          "'{}' is not a duration: write a number and a unit, for instance 500ms, 30s or 5m",
          text));
}

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t max) {
  text = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > max) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not a whole number from 0 to {}", text, max));
  }
  return value;
}

Result<double> parse_share(std::string_view text) {
  std::string_view digits = trimmed(text);
  const bool percent = digits.ends_with('%');
  if (percent) digits.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (percent) value /= 100;
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value >= 0 && value <= 1)) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not a share: write 0.95 or 95%", text));
  }
  return value;
}

Result<bool> parse_bool(std::string_view text) {
  const std::string word = lower(trimmed(text));
  if (word == "true" || word == "on" || word == "yes" || word == "1") return true;
  if (word == "false" || word == "off" || word == "no" || word == "0") return false;
  return fail(Code::kInvalidArgument, fmt::format("'{}' is neither true nor false", text));
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kNames[unit]);
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const auto ns = static_cast<double>(duration.count());
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
  if (ns < 120e9) return fmt::format("{:.1f} s", ns / 1e9);
  if (ns < 7200e9) return fmt::format("{:.0f} min", ns / 60e9);
  return fmt::format("{:.1f} h", ns / 3600e9);
}

std::string format_rate(double bytes_per_second) {
  if (bytes_per_second < 1e6) return fmt::format("{:.1f} kB/s", bytes_per_second / 1e3);
  if (bytes_per_second < 1e9) return fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
  return fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
}

}  // namespace sluice::app
