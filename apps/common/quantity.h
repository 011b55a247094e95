// quantity.h: sizes and durations as people write them.
//
// Pure functions. A size is a number with an optional unit: K, M, G, T (powers of 1024, also KiB,
// MiB, ...) or KB, MB, GB, TB (powers of 1000); no unit means bytes. A duration always has a unit:
// ns, us, ms, s, m, h, d; only 0 may stand alone.
// Failure: kInvalidArgument with what was read and what would be right; overflow and negative
//          numbers are refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <sluice/error.h>

namespace sluice::app {

Result<std::uint64_t> parse_size(std::string_view text);
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t max);
Result<double> parse_share(std::string_view text);  // "0.95" or "95%", 0..1
Result<bool> parse_bool(std::string_view text);     // true, false, on, off, yes, no, 1, 0

std::string format_size(std::uint64_t bytes);                    // "1.5 GiB"
std::string format_duration(std::chrono::nanoseconds duration);  // "1.5 ms"
std::string format_rate(double bytes_per_second);                // "4.2 GB/s"

}  // namespace sluice::app
