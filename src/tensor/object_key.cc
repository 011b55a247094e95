#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/object_key.h>

#include "base/check.h"
#include "base/limits.h"

namespace sluice {
namespace {

constexpr std::string_view kFormat = "sluice1";
constexpr std::string_view kIdLabel = "id:";
constexpr std::array<std::string_view, 5> kKindNames = {"encoder_output", "prefix_fragment",
                                                        "stage_output", "kv_handoff", "kv_page"};

bool unreserved(unsigned char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

void append_escaped(std::string& to, std::string_view field) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : field) {
    const auto byte = static_cast<unsigned char>(c);
    if (unreserved(byte)) {
      to += c;
    } else {
      to += '%';
      to += kHex[byte >> 4];
      to += kHex[byte & 0xFu];
    }
  }
}

// The value of a digit as append_escaped() prints it: upper case only.
std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

// The inverse of append_escaped(): nothing for text that it would never print.
std::optional<std::string> unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (unreserved(static_cast<unsigned char>(text[at]))) {
      out += text[at];
      continue;
    }
    if (text[at] != '%' || text.size() - at < 3) return std::nullopt;
    const auto high = hex_digit(text[at + 1]);
    const auto low = hex_digit(text[at + 2]);
    if (!high || !low) return std::nullopt;
    const auto byte = static_cast<unsigned char>(*high << 4 | *low);
    if (unreserved(byte)) return std::nullopt;
    out += static_cast<char>(byte);
    at += 2;
  }
  return out;
}

std::unexpected<Error> too_long() {
  return fail(Code::kInvalidArgument,
              fmt::format("object key: the text is longer than {} bytes", kKeyBytesMax));
}

std::unexpected<Error> empty_field(std::string_view field) {
  return fail(Code::kInvalidArgument, fmt::format("object key: {} must not be empty", field));
}

// The rules that concern what the fields say, not how they are written.
Status validate(const KeyFields& fields) {
  for (const auto* value : {&fields.prefix, &fields.tenant, &fields.model, &fields.revision,
                            &fields.encoder, &fields.dtype, &fields.layout, &fields.id}) {
    if (value->size() > kKeyBytesMax) return too_long();
  }
  const std::array<std::pair<std::string_view, const std::string*>, 7> required = {{
      {"tenant", &fields.tenant},
      {"model", &fields.model},
      {"revision", &fields.revision},
      {"encoder", &fields.encoder},
      {"dtype", &fields.dtype},
      {"layout", &fields.layout},
      {"id", &fields.id},
  }};
  for (const auto& [label, value] : required) {
    if (value->empty()) return empty_field(label);
  }
  if (static_cast<std::size_t>(fields.kind) >= kKindNames.size()) {
    return fail(Code::kInvalidArgument, "object key: kind is not one of the known kinds");
  }
  if (fields.layout == "rank_sharded" || fields.layout == "segmented") {
    return fail(
        Code::kUnsupported,
        fmt::format("object key: layout {} is reserved; only replicated is stored", fields.layout));
  }
  if (fields.layout != "replicated") {
    return fail(Code::kInvalidArgument, "object key: layout must be replicated");
  }
  if (!fields.parallel.empty()) {
    return fail(Code::kInvalidArgument,
                "object key: parallel belongs to sharded layouts; a replicated object is the same "
                "for every parallel size");
  }
  return {};
}

// Walks the '@'-separated parts of a key in their fixed order.
class Parts {
 public:
  explicit Parts(std::string_view text) noexcept : rest_(text) {}

  bool done() const noexcept { return done_; }
  bool next_is(std::string_view part) const noexcept {
    return !done_ && rest_.substr(0, rest_.find('@')) == part;
  }
  bool next_has_label(std::string_view label) const noexcept {
    return !done_ && rest_.starts_with(label) && rest_.substr(label.size()).starts_with(':');
  }

  std::string_view next() noexcept {
    const auto at = rest_.find('@');
    const auto part = rest_.substr(0, at);
    done_ = at == std::string_view::npos;
    rest_ = done_ ? std::string_view{} : rest_.substr(at + 1);
    return part;
  }

  // The unescaped value of the next part, which must be `label:value`.
  Result<std::string> field(std::string_view label) {
    if (done_)
      return fail(Code::kInvalidArgument, fmt::format("object key: {}: is missing", label));
    const auto part = next();
    if (part.size() <= label.size() || !part.starts_with(label) || part[label.size()] != ':') {
      return fail(Code::kInvalidArgument, fmt::format("object key: expected {}: next", label));
    }
    auto value = unescaped(part.substr(label.size() + 1));
    if (!value) {
      return fail(Code::kInvalidArgument,
                  fmt::format("object key: {} is not escaped as this format writes it: "
                              "A-Za-z0-9-_.~ as they are, every other byte as %XX",
                              label));
    }
    return *std::move(value);
  }

 private:
  std::string_view rest_;
  bool done_ = false;
};

std::optional<ObjectKind> kind_from(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == text) return static_cast<ObjectKind>(i);
  }
  return std::nullopt;
}

// The optional operator's prefix and the format's name, which is what an unknown version changes.
Status parse_start(Parts& parts, KeyFields& fields) {
  auto part = parts.next();
  // "sluice1@sluice1@tenant:" has the prefix "sluice1": a tenant always follows the format's name.
  if (part != kFormat || parts.next_is(kFormat)) {
    auto prefix = unescaped(part);
    if (!prefix || prefix->empty()) {
      return fail(Code::kInvalidArgument, "object key: the prefix is empty or not escaped");
    }
    fields.prefix = *std::move(prefix);
    if (parts.done()) return fail(Code::kInvalidArgument, "object key: no sluice1@ in the text");
    part = parts.next();
  }
  if (part != kFormat) {
    return fail(Code::kVersion, "object key: the text is not of the format sluice1");
  }
  return {};
}

Result<KeyFields> parse_fields(std::string_view text) {
  KeyFields fields;
  Parts parts(text);
  if (auto started = parse_start(parts, fields); !started) return std::unexpected(started.error());

  std::string kind;
  const std::array<std::pair<std::string_view, std::string*>, 7> in_order = {{
      {"tenant", &fields.tenant},
      {"kind", &kind},
      {"model", &fields.model},
      {"revision", &fields.revision},
      {"encoder", &fields.encoder},
      {"dtype", &fields.dtype},
      {"layout", &fields.layout},
  }};
  for (const auto& [label, target] : in_order) {
    auto value = parts.field(label);
    if (!value) return std::unexpected(value.error());
    *target = *std::move(value);
  }
  const auto known_kind = kind_from(kind);
  if (!known_kind) {
    return fail(Code::kInvalidArgument,
                fmt::format("object key: unknown kind; known are {}", fmt::join(kKindNames, ", ")));
  }
  fields.kind = *known_kind;
  if (parts.next_has_label("parallel")) {
    auto parallel = parts.field("parallel");
    if (!parallel) return std::unexpected(parallel.error());
    if (parallel->empty()) return empty_field("parallel");
    fields.parallel = *std::move(parallel);
  }
  auto id = parts.field("id");
  if (!id) return std::unexpected(id.error());
  fields.id = *std::move(id);
  if (!parts.done()) return fail(Code::kInvalidArgument, "object key: nothing may follow the id");
  return fields;
}

}  // namespace

std::string_view name(ObjectKind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

Result<ObjectKey> ObjectKey::make(const KeyFields& fields) {
  if (auto valid = validate(fields); !valid) return std::unexpected(valid.error());
  ObjectKey key;
  std::string& text = key.text_;
  text.reserve(256);
  if (!fields.prefix.empty()) {
    append_escaped(text, fields.prefix);
    text += '@';
  }
  text += kFormat;
  const auto append = [&text](std::string_view label, std::string_view value) {
    text += '@';
    text += label;
    text += ':';
    append_escaped(text, value);
  };
  append("tenant", fields.tenant);
  append("kind", sluice::name(fields.kind));
  append("model", fields.model);
  append("revision", fields.revision);
  append("encoder", fields.encoder);
  append("dtype", fields.dtype);
  append("layout", fields.layout);
  text += '@';
  text += kIdLabel;
  key.id_at_ = text.size();
  append_escaped(text, fields.id);
  if (text.size() > kKeyBytesMax) return too_long();
  key.kind_ = fields.kind;
  return key;
}

Result<ObjectKey> ObjectKey::parse(std::string_view text) {
  if (text.size() > kKeyBytesMax) return too_long();
  const auto fields = parse_fields(text);
  if (!fields) return std::unexpected(fields.error());
  if (auto valid = validate(*fields); !valid) return std::unexpected(valid.error());
  ObjectKey key;
  key.text_ = text;
  key.id_at_ = text.rfind('@') + 1 + kIdLabel.size();  // the id is the last part
  key.kind_ = fields->kind;
  return key;
}

Result<ObjectKey> ObjectKey::from_text(std::string_view text_or_name) {
  if (text_or_name.find("sluice1@") != std::string_view::npos) return parse(text_or_name);
  KeyFields fields;
  fields.model = "adhoc";
  fields.revision = "none";
  fields.encoder = "none";
  fields.dtype = "any";
  fields.id = text_or_name;
  return make(fields);
}

KeyFields ObjectKey::fields() const {
  auto fields = parse_fields(text_);
  CHECK(fields.has_value());
  return *std::move(fields);
}

Result<ObjectKey> ObjectKey::with_id(std::string_view id) const {
  if (id.empty()) return empty_field("id");
  if (id.size() > kKeyBytesMax) return too_long();
  ObjectKey key;
  key.text_.reserve(id_at_ + id.size());
  key.text_.assign(text_, 0, id_at_);
  append_escaped(key.text_, id);
  if (key.text_.size() > kKeyBytesMax) return too_long();
  key.id_at_ = id_at_;
  key.kind_ = kind_;
  return key;
}

}  // namespace sluice
