#include "output.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/json_view.h"

namespace sluice::cli {
namespace {

// Columns that UTF-8 text takes, near enough: one per code point.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

std::string Output::paint(std::string_view text, Tone tone) const {
  if (!look_.colour || tone == Tone::kPlain) return std::string(text);
  const char* code = "0";
  switch (tone) {
    case Tone::kPlain:
      break;
    case Tone::kGood:
      code = "32";
      break;
    case Tone::kWarning:
      code = "33";
      break;
    case Tone::kBad:
      code = "31";
      break;
    case Tone::kFaint:
      code = "2";
      break;
    case Tone::kStrong:
      code = "1";
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void Output::line(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

void Output::value(const nlohmann::ordered_json& value) const {
  line(app::dump(value, look_.terminal ? 2 : -1));
}

void Output::row(const nlohmann::ordered_json& value) const {
  line(app::dump(value));
  std::fflush(stdout);
}

void Output::error(const Error& error) const {
  std::fflush(stdout);
  const std::string text = look_.json ? app::dump(app::to_json(error))
                                      : fmt::format("sluice: {}", printable(error.message));
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Output::table(const Table& table) const {
  std::vector<std::size_t> widths;
  widths.reserve(table.header.size());
  for (const std::string& cell : table.header) widths.push_back(width_of(cell));
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  const auto print = [&](const std::vector<std::string>& row, Tone tone) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - width_of(row[i]), ' ');
      const bool right = i < table.right.size() && table.right[i];
      if (i > 0) text += "  ";
      if (right) text += gap;
      text += row[i];
      if (!right && i + 1 < row.size()) text += gap;
    }
    line(paint(text, tone));
  };
  print(table.header, Tone::kStrong);
  for (const auto& row : table.rows) print(row, Tone::kPlain);
}

}  // namespace sluice::cli
