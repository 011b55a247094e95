#include "output.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/json_view.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kGap = "  ";

// Columns that UTF-8 text takes, near enough: one per code point, none for a change of colour.
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++width;
    }
  }
  return width;
}

std::vector<std::size_t> widths_of(const Output::Table& table) {
  std::vector<std::size_t> widths;
  widths.reserve(table.header.size());
  for (const std::string& cell : table.header) widths.push_back(width_of(cell));
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

// Which columns are shown in so many columns of a terminal.
std::vector<bool> shown_columns(const Output::Table& table, const std::vector<std::size_t>& widths,
                                std::size_t columns) {
  std::vector<bool> shown(widths.size(), true);
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width + kGap.size();
  while (total > columns + kGap.size()) {
    std::size_t worst = widths.size();
    for (std::size_t i = 0; i < table.dropped.size() && i < widths.size(); ++i) {
      if (!shown[i] || table.dropped[i] == 0) continue;
      if (worst == widths.size() || table.dropped[i] > table.dropped[worst]) worst = i;
    }
    if (worst == widths.size()) break;
    shown[worst] = false;
    total -= widths[worst] + kGap.size();
  }
  return shown;
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

void Output::flow(std::string_view title, const std::vector<std::string>& pieces) const {
  const auto columns = static_cast<std::size_t>(std::max(look_.columns, 1));
  std::string text(title);
  std::size_t width = width_of(title);
  for (const std::string& piece : pieces) {
    const std::size_t more = width_of(piece);
    if (look_.terminal && width + kGap.size() + more > columns) {
      line(text);
      text = kGap;
      width = kGap.size();
    } else if (!text.empty()) {
      text += kGap;
      width += kGap.size();
    }
    text += piece;
    width += more;
  }
  line(text);
}

void Output::table(const Table& table) const {
  const std::vector<std::size_t> widths = widths_of(table);
  const std::vector<bool> shown =
      look_.terminal
          ? shown_columns(table, widths, static_cast<std::size_t>(std::max(look_.columns, 1)))
          : std::vector<bool>(widths.size(), true);
  const auto print = [&](const std::vector<std::string>& row, Tone tone) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!shown[i]) continue;
      const std::string gap(widths[i] - width_of(row[i]), ' ');
      const bool right = i < table.right.size() && table.right[i];
      if (i > 0) text += kGap;
      if (right) text += gap;
      text += row[i];
      if (!right) text += gap;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    line(paint(text, tone));
  };
  print(table.header, Tone::kStrong);
  for (const auto& row : table.rows) print(row, Tone::kPlain);
}

}  // namespace sluice::cli
