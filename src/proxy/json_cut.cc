#include "proxy/json_cut.h"

namespace sluice::proxy {
namespace {

constexpr std::string_view kNeedle = "_transfer_params\"";

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// Behind the closing quote of the string that begins at `at`, or the end of the text.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

// Behind the value that begins at `at`.
std::size_t skip_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      --depth;
      ++at;
    } else if (depth == 0 && (c == ',' || is_space(c))) {
      return at;
    } else {
      ++at;
    }
    if (depth == 0 && (c == '"' || c == '}' || c == ']')) return at;
  }
  return text.size();
}

void drop_trailing_comma(std::string& out) {
  std::size_t end = out.size();
  while (end > 0 && is_space(out[end - 1])) --end;
  if (end > 0 && out[end - 1] == ',') out.resize(end - 1);
}

}  // namespace

std::optional<std::string> cut_transfer_params(std::string_view text) {
  if (text.find(kNeedle) == std::string_view::npos) return std::nullopt;
  std::string out;
  out.reserve(text.size());
  bool cut = false;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '"') {
      out += text[at++];
      continue;
    }
    const std::size_t end = skip_string(text, at);
    const std::string_view key = text.substr(at, end - at);
    const std::size_t colon = skip_space(text, end);
    const bool ours = (key == "\"kv_transfer_params\"" || key == "\"ec_transfer_params\"") &&
                      colon < text.size() && text[colon] == ':';
    if (!ours) {
      out += key;
      at = end;
      continue;
    }
    cut = true;
    at = skip_space(text, skip_value(text, skip_space(text, colon + 1)));
    if (at < text.size() && text[at] == ',') {
      at = skip_space(text, at + 1);
    } else {
      drop_trailing_comma(out);
    }
  }
  if (!cut) return std::nullopt;
  return out;
}

}  // namespace sluice::proxy
