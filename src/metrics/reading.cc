#include "metrics/reading.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace sluice::metrics {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// As the format writes numbers: decimal, NaN and infinity in these spellings and no others.
std::optional<double> number(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf" || text == "Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || !(is_digit(digits.front()) || digits.front() == '.')) return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// One line of samples, read from its front.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  Result<Sample> read() {
    Sample sample;
    sample.name = word(true);
    if (sample.name.empty()) return refuse("does not begin with a name");
    if (sample.name.size() > kReadWordBytesMax) return too_long();
    skip_blanks();
    if (take('{')) {
      if (const auto read = labels(sample.labels); !read) return std::unexpected(read.error());
      skip_blanks();
    }
    const auto value = number(token());
    if (!value) return refuse("has no number that a double can hold");
    sample.value = *value;
    skip_blanks();
    if (!rest_.empty() && !timestamp()) return refuse("goes on behind its number");
    return sample;
  }

 private:
  static std::unexpected<Error> refuse(std::string_view why) {
    return fail(Code::kInvalidArgument, std::string(why));
  }
  static std::unexpected<Error> too_long() {
    return fail(Code::kLimit, fmt::format("holds a name or a value of more than {} bytes, or more "
                                          "than {} labels",
                                          kReadWordBytesMax, kReadLabelsMax));
  }
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  std::string word(bool colons) {
    std::size_t n = 0;
    const auto fits = [&](char c) {
      return is_letter(c) || (colons && c == ':') || (n > 0 && is_digit(c));
    };
    while (n < rest_.size() && fits(rest_[n])) ++n;
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return out;
  }
  std::string_view token() {
    const std::string_view out = rest_.substr(0, rest_.find_first_of(" \t"));
    rest_.remove_prefix(out.size());
    return out;
  }
  // Milliseconds, a whole number; it is not kept.
  bool timestamp() {
    const std::string_view text = token();
    std::int64_t ignored = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), ignored);
    skip_blanks();
    return read.ec == std::errc{} && read.ptr == text.data() + text.size() && rest_.empty();
  }
  Status labels(Labels& to) {
    for (;;) {
      skip_blanks();
      if (take('}')) return {};
      std::string name = word(false);
      if (name.empty()) return refuse("has a label without a name");
      const auto same = [&](const auto& known) { return known.first == name; };
      if (std::ranges::any_of(to, same)) return refuse("has the same label twice");
      skip_blanks();
      if (!take('=')) return refuse("has a label without a value");
      skip_blanks();
      auto value = quoted();
      if (!value) return std::unexpected(value.error());
      if (to.size() == kReadLabelsMax || name.size() > kReadWordBytesMax) return too_long();
      to.emplace_back(std::move(name), std::move(*value));
      skip_blanks();
      if (!take(',') && !rest_.starts_with('}')) return refuse("has labels without a comma");
    }
  }
  Result<std::string> quoted() {
    if (!take('"')) return refuse("has a label value without quotes");
    std::string out;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
      } else if (take('\\')) {
        out += '\\';
      } else if (take('"')) {
        out += '"';
      } else if (take('n')) {
        out += '\n';
      } else {
        return refuse("has an escape that is none");
      }
      if (out.size() > kReadWordBytesMax) return too_long();
    }
    return refuse("has a label value without an end");
  }

  std::string_view rest_;
};

// "# TYPE name kind" must say a kind that there is; every other comment is free text.
bool is_fair_comment(std::string_view line) {
  constexpr std::string_view kType = "# TYPE ";
  if (!line.starts_with(kType)) return true;
  line.remove_prefix(kType.size());
  const std::string_view kind = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
  constexpr std::string_view kKinds[] = {"counter", "gauge", "histogram", "summary", "untyped"};
  return !line.empty() && std::ranges::find(kKinds, kind) != std::end(kKinds);
}

}  // namespace

std::string_view Sample::label(std::string_view wanted) const noexcept {
  const auto found =
      std::ranges::find_if(labels, [&](const auto& label) { return label.first == wanted; });
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

Result<Reading> Reading::parse(std::string_view text) {
  if (text.size() > kReadBytesMax) {
    return fail(Code::kLimit, fmt::format("metrics of more than {} bytes", kReadBytesMax));
  }
  Reading reading;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      return fail(Code::kInvalidArgument,
                  fmt::format("metrics, line {}: the text ends inside it", line_number));
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.empty()) continue;
    if (line.starts_with('#')) {
      if (is_fair_comment(line)) continue;
      return fail(Code::kInvalidArgument,
                  fmt::format("metrics, line {}: names a type that there is not", line_number));
    }
    auto sample = LineReader(line).read();
    if (!sample) {
      return fail(sample.error().code,
                  fmt::format("metrics, line {}: {}", line_number, sample.error().message));
    }
    if (reading.samples_.size() == kReadSamplesMax) {
      return fail(Code::kLimit, fmt::format("metrics of more than {} samples", kReadSamplesMax));
    }
    reading.samples_.push_back(std::move(*sample));
  }
  return reading;
}

double Reading::sum(std::string_view name, const Match& match) const {
  double sum = 0;
  for (const Sample& sample : samples_) {
    if (sample.name != name || !std::isfinite(sample.value)) continue;
    if (!match || match(sample)) sum += sample.value;
  }
  return sum;
}

bool Reading::has(std::string_view name) const noexcept {
  return std::ranges::any_of(samples_, [&](const Sample& sample) { return sample.name == name; });
}

Buckets Reading::histogram(std::string_view name, const Match& match) const {
  const std::string family = fmt::format("{}_bucket", name);
  std::map<double, double> counts;
  for (const Sample& sample : samples_) {
    if (sample.name != family || (match && !match(sample))) continue;
    const auto bound = number(sample.label("le"));
    if (!bound || std::isnan(*bound) || !std::isfinite(sample.value)) return {};
    counts[*bound] += sample.value;
  }
  Buckets out;
  for (const auto& [bound, count] : counts) {
    if (count < out.total()) return {};
    out.bounds.push_back(bound);
    out.counts.push_back(count);
  }
  if (out.bounds.empty() || std::isfinite(out.bounds.back())) return {};
  return out;
}

}  // namespace sluice::metrics
