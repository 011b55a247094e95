#include "proxy/openai_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "proxy/json_text.h"

namespace sluice::proxy {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(kScanPadding >= simdjson::SIMDJSON_PADDING);

constexpr std::size_t kKeepParserBytes = 1 << 20;  // a larger parser is not kept between requests

constexpr std::array<std::string_view, 6> kMediaTypes = {
    "image_url", "video_url", "audio_url", "input_audio", "image_embeds", "input_image"};
// What engines take for media, whatever the part's type says.
constexpr std::array<std::string_view, 9> kMediaKeys = {
    "image_url",    "video_url",    "audio_url",     "input_audio", "image_embeds",
    "audio_embeds", "video_embeds", "prompt_embeds", "image_pil"};
constexpr std::array<std::string_view, 2> kOwnFields = {"kv_transfer_params", "ec_transfer_params"};

bool one_of(std::span<const std::string_view> all, std::string_view name) {
  return std::ranges::find(all, name) != all.end();
}

// One pass over one body; the first error ends it.
class Pass {
 public:
  Pass(ondemand::document& document, std::string_view body, const ScanRules& rules)
      : document_(document), body_(body), rules_(rules) {}

  Outcome<ScannedRequest> run() {
    out_.body = body_;
    if (const bool done = read_top(); !done) return std::unexpected(std::move(error_));
    return std::move(out_);
  }

 private:
  struct Member {
    std::string name;
    std::size_t begin = 0;  // the quote of its key
    ondemand::value value;
  };

  bool refuse(std::string_view param, std::string message,
              std::string_view code = "invalid_value") {
    if (error_.message.empty()) {
      error_ = {.status = 400,
                .message = std::move(message),
                .param = std::string(param),
                .code = std::string(code)};
    }
    return false;
  }
  bool malformed(simdjson::error_code code) {
    return refuse("", fmt::format("the body is not valid JSON: {}", simdjson::error_message(code)),
                  "invalid_json");
  }

  std::size_t at(const char* place) const { return static_cast<std::size_t>(place - body_.data()); }
  std::size_t at(std::string_view part) const {
    return static_cast<std::size_t>(part.data() - body_.data());
  }
  // Just behind the value that was read last, whatever white space follows it.
  std::size_t behind() {
    const char* place = nullptr;
    std::size_t end = body_.size();
    if (document_.current_location().get(place) == simdjson::SUCCESS) end = at(place);
    while (end > 0 && is_space(body_[end - 1])) --end;
    return end;
  }
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  // Where a value begins, without reading it.
  std::size_t start_of(ondemand::value& value) {
    return at(std::string_view(value.raw_json_token()));
  }
  Span token_span(ondemand::value& value) {
    const std::string_view token = value.raw_json_token();
    std::size_t end = at(token) + token.size();
    while (end > at(token) && is_space(body_[end - 1])) --end;
    return {at(token), end};
  }

  // Calls `each` for the members of an object; false as soon as it or the JSON fails.
  template <class Each>
  bool members(ondemand::object object, Each&& each) {
    for (auto item : object) {
      ondemand::field field;
      if (const auto code = std::move(item).get(field)) return malformed(code);
      Member member;
      member.begin = at(field.key().raw()) - 1;
      std::string_view name;
      if (const auto code = field.unescaped_key().get(name)) return malformed(code);
      member.name = name;
      member.value = field.value();
      if (!each(member)) return false;
    }
    return true;
  }

  // The span of a value of any kind that stands inside `depth` others, read to its end.
  bool walk(ondemand::value value, int depth, std::string_view path, Span& span) {
    ondemand::json_type type{};
    if (const auto code = value.type().get(type)) return malformed(code);
    const bool holds_more =
        type == ondemand::json_type::object || type == ondemand::json_type::array;
    if (holds_more && depth >= kJsonDepthMax) {
      return refuse(path, fmt::format("the body is nested deeper than {}", kJsonDepthMax),
                    "too_deep");
    }
    if (type == ondemand::json_type::object) {
      span.begin = start_of(value);
      ondemand::object object;
      if (const auto code = value.get_object().get(object)) return malformed(code);
      const bool done = members(object, [&](Member& member) {
        Span inner;
        return walk(member.value, depth + 1, path, inner);
      });
      if (!done) return false;
      span.end = behind();
      return true;
    }
    if (type == ondemand::json_type::array) {
      span.begin = start_of(value);
      ondemand::array array;
      if (const auto code = value.get_array().get(array)) return malformed(code);
      for (auto item : array) {
        ondemand::value element;
        if (const auto code = std::move(item).get(element)) return malformed(code);
        Span inner;
        if (!walk(element, depth + 1, path, inner)) return false;
      }
      span.end = behind();
      return true;
    }
    span = token_span(value);
    return check_scalar(value, type, path, span);
  }

  bool check_scalar(ondemand::value& value, ondemand::json_type type, std::string_view path,
                    Span span) {
    if (type == ondemand::json_type::string) return check_string(path, span);
    simdjson::error_code code = simdjson::SUCCESS;
    if (type == ondemand::json_type::number) code = value.get_number().error();
    if (type == ondemand::json_type::boolean) code = value.get_bool().error();
    // A number too large for this machine is still one.
    const bool is_number =
        type == ondemand::json_type::number && code == simdjson::NUMBER_ERROR &&
        span.end - span.begin > 18 &&
        span.of(body_).find_first_not_of("-+.0123456789eE") == std::string_view::npos;
    if (code != simdjson::SUCCESS && !is_number) return malformed(code);
    if (type == ondemand::json_type::null && span.of(body_) != "null") {
      return malformed(simdjson::N_ATOM_ERROR);
    }
    return true;
  }
  bool check_string(std::string_view path, Span span) {
    if (span.end - span.begin >= 2 &&
        escapes_are_valid(span.of(body_).substr(1, span.end - span.begin - 2))) {
      return true;
    }
    return refuse(path, fmt::format("'{}' holds an escape that means nothing", path),
                  "invalid_json");
  }

  bool read_top() {
    ondemand::object object;
    const char* first = nullptr;
    if (const auto code = document_.current_location().get(first)) return malformed(code);
    out_.object.begin = at(first);
    if (const auto code = document_.get_object().get(object)) {
      return code == simdjson::INCORRECT_TYPE
                 ? refuse("", "the body must be a JSON object", "invalid_type")
                 : malformed(code);
    }
    const bool done = members(object, [&](Member& member) { return read_field(member); });
    if (!done) return false;
    const char* more = nullptr;
    if (document_.current_location().get(more) != simdjson::OUT_OF_BOUNDS) {
      return refuse("", "more follows the JSON object", "invalid_json");
    }
    out_.object.end = behind();
    if (rules_.model_needed && out_.model.empty()) {
      return refuse("model", "you must provide a model", "missing_field");
    }
    return true;
  }

  bool read_field(Member& member) {
    if (one_of(kOwnFields, member.name)) {
      return refuse(member.name, fmt::format("'{}' is set by this service only", member.name),
                    "forbidden_field");
    }
    if (out_.field(member.name) != nullptr) {
      return refuse(member.name, fmt::format("'{}' is given twice", member.name), "repeated_field");
    }
    if (out_.fields.size() == kFieldsMax) {
      return refuse("", fmt::format("more than {} fields", kFieldsMax), "too_many_fields");
    }
    TopField field;
    field.name = member.name;
    field.slot.begin = member.begin;
    if (!read_known(member, field.value)) return false;
    field.slot.end = field.value.end;
    out_.fields.push_back(std::move(field));
    return true;
  }

  bool read_known(Member& member, Span& span) {
    if (member.name == "messages") return read_messages(member.value, span);
    if (member.name == "input") return read_input(member.value, span);
    if (member.name == "vllm_xargs") return read_extra(member.value, span);
    if (member.name == "prompt_embeds") {
      ondemand::json_type type{};
      if (const auto code = member.value.type().get(type)) return malformed(code);
      if (type != ondemand::json_type::null) {
        return refuse(member.name, "embeddings in the place of a prompt are not accepted",
                      "unsupported_field");
      }
    }
    if (!walk(member.value, 1, member.name, span)) return false;
    const std::string_view text = span.of(body_);
    if (member.name == "model") return read_model(text);
    if (member.name == "stream") return read_bool(member.name, text, out_.stream);
    if (member.name == "n") return read_count(text);
    return true;
  }

  bool read_model(std::string_view text) {
    if (text == "null") return true;
    if (text.size() < 2 || text.front() != '"' || text.back() != '"') {
      return refuse("model", "'model' must be a string", "invalid_type");
    }
    text = text.substr(1, text.size() - 2);
    if (text.size() > 1024 || text.find('\\') != std::string_view::npos) {
      return refuse("model", "'model' is not a name", "invalid_value");
    }
    out_.model = text;
    return true;
  }
  bool read_bool(std::string_view name, std::string_view text, bool& to) {
    if (text != "true" && text != "false" && text != "null") {
      return refuse(name, fmt::format("'{}' must be true or false", name), "invalid_type");
    }
    to = text == "true";
    return true;
  }
  bool read_count(std::string_view text) {
    if (text == "null") return true;
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || end != text.data() + text.size() || n == 0 || n > 1024) {
      return refuse("n", "'n' must be a whole number from 1 to 1024", "invalid_value");
    }
    out_.n = n;
    return true;
  }

  // Extra arguments of the engine: may not smuggle in what only this proxy says.
  bool read_extra(ondemand::value value, Span& span) {
    ondemand::json_type type{};
    if (const auto code = value.type().get(type)) return malformed(code);
    if (type != ondemand::json_type::object) return walk(value, 1, "vllm_xargs", span);
    span.begin = start_of(value);
    ondemand::object object;
    if (const auto code = value.get_object().get(object)) return malformed(code);
    const bool done = members(object, [&](Member& member) {
      if (one_of(kOwnFields, member.name)) {
        return refuse("vllm_xargs", fmt::format("'{}' is set by this service only", member.name),
                      "forbidden_field");
      }
      Span inner;
      return walk(member.value, 2, "vllm_xargs", inner);
    });
    span.end = behind();
    return done;
  }

  bool read_messages(ondemand::value value, Span& span) {
    span.begin = start_of(value);
    ondemand::array messages;
    if (const auto code = value.get_array().get(messages)) {
      return code == simdjson::INCORRECT_TYPE
                 ? refuse("messages", "'messages' must be an array", "invalid_type")
                 : malformed(code);
    }
    std::size_t index = 0;
    for (auto item : messages) {
      ondemand::value message;
      if (const auto code = std::move(item).get(message)) return malformed(code);
      if (!read_message(message, fmt::format("messages[{}]", index++))) return false;
    }
    span.end = behind();
    return true;
  }

  // Of /v1/responses: text, or items that may hold content as messages do. Other routes put texts
  // or numbers there.
  bool read_input(ondemand::value value, Span& span) {
    ondemand::json_type type{};
    if (const auto code = value.type().get(type)) return malformed(code);
    if (type != ondemand::json_type::array) return walk(value, 1, "input", span);
    span.begin = start_of(value);
    ondemand::array items;
    if (const auto code = value.get_array().get(items)) return malformed(code);
    std::size_t index = 0;
    for (auto item : items) {
      ondemand::value element;
      if (const auto code = std::move(item).get(element)) return malformed(code);
      const std::string path = fmt::format("input[{}]", index++);
      ondemand::json_type element_type{};
      if (const auto code = element.type().get(element_type)) return malformed(code);
      Span inner;
      const bool done = element_type == ondemand::json_type::object ? read_message(element, path)
                                                                    : walk(element, 2, path, inner);
      if (!done) return false;
    }
    span.end = behind();
    return true;
  }

  // Batches nest arrays of messages.
  bool read_message(ondemand::value value, const std::string& path, int depth = 2) {
    ondemand::json_type type{};
    if (const auto code = value.type().get(type)) return malformed(code);
    if (type == ondemand::json_type::array) {
      if (depth > 3) return refuse(path, fmt::format("'{}' is nested too deep", path), "too_deep");
      ondemand::array inner;
      if (const auto code = value.get_array().get(inner)) return malformed(code);
      for (auto item : inner) {
        ondemand::value message;
        if (const auto code = std::move(item).get(message)) return malformed(code);
        if (!read_message(message, path, depth + 1)) return false;
      }
      return true;
    }
    if (type != ondemand::json_type::object) {
      return refuse(path, fmt::format("'{}' must be an object", path), "invalid_type");
    }
    ondemand::object object;
    if (const auto code = value.get_object().get(object)) return malformed(code);
    bool content_seen = false;
    return members(object, [&](Member& member) {
      Span span;
      // What a tool gave back may hold media as well.
      if (member.name == "output") return read_content(member.value, path + ".output", depth + 1);
      if (member.name != "content") return walk(member.value, depth + 1, path, span);
      if (std::exchange(content_seen, true)) {
        return refuse(path + ".content", fmt::format("'{}.content' is given twice", path),
                      "repeated_field");
      }
      return read_content(member.value, path + ".content", depth + 1);
    });
  }

  bool read_content(ondemand::value value, const std::string& path, int depth) {
    ondemand::json_type type{};
    if (const auto code = value.type().get(type)) return malformed(code);
    Span span;
    if (type != ondemand::json_type::array) return walk(value, depth, path, span);
    ondemand::array parts;
    if (const auto code = value.get_array().get(parts)) return malformed(code);
    std::size_t index = 0;
    for (auto item : parts) {
      ondemand::value part;
      if (const auto code = std::move(item).get(part)) return malformed(code);
      const std::string part_path = fmt::format("{}[{}]", path, index++);
      ondemand::json_type part_type{};
      if (const auto code = part.type().get(part_type)) return malformed(code);
      if (part_type == ondemand::json_type::object) {
        if (!read_part(part, part_path, depth + 1)) return false;
      } else if (part_type != ondemand::json_type::string) {
        return refuse(part_path, fmt::format("'{}' must be an object", part_path), "invalid_type");
      } else if (!walk(part, depth + 1, part_path, span)) {
        return false;
      }
    }
    return true;
  }

  struct PartParts {
    std::string type;
    bool type_seen = false;
    std::string media_key;
    Span data;
    bool data_is_text = false;
    Span uuid, uuid_value;
  };

  bool read_part(ondemand::value value, const std::string& path, int depth) {
    MediaPart part;
    part.part.begin = start_of(value);
    ondemand::object object;
    if (const auto code = value.get_object().get(object)) return malformed(code);
    PartParts parts;
    const bool done = members(
        object, [&](Member& member) { return read_part_member(member, path, depth, parts); });
    if (!done) return false;
    part.part.end = behind();
    return finish_part(std::move(part), parts, path);
  }

  bool read_part_member(Member& member, const std::string& path, int depth, PartParts& parts) {
    const std::string inner = path + "." + member.name;
    Span span;
    if (member.name == "type") {
      if (std::exchange(parts.type_seen, true)) {
        return refuse(inner, fmt::format("'{}' is given twice", inner), "repeated_field");
      }
      std::string_view text;
      if (member.value.get_string().get(text) != simdjson::SUCCESS) {
        return refuse(inner, fmt::format("'{}' must be a string", inner), "invalid_type");
      }
      parts.type = text;
      return true;
    }
    if (member.name == "uuid") {
      if (parts.uuid.end != 0) {
        return refuse(inner, fmt::format("'{}' is given twice", inner), "repeated_field");
      }
      if (!walk(member.value, depth + 1, inner, span)) return false;
      const std::string_view text = span.of(body_);
      if (text != "null" && text.front() != '"') {
        return refuse(inner, fmt::format("'{}' must be a string", inner), "invalid_type");
      }
      parts.uuid = {member.begin, span.end};
      if (text != "null") parts.uuid_value = span;
      return true;
    }
    if (!one_of(kMediaKeys, member.name)) return walk(member.value, depth + 1, path, span);
    if (!parts.media_key.empty()) {
      return refuse(inner, fmt::format("'{}' holds more than one medium", path), "invalid_value");
    }
    parts.media_key = member.name;
    return read_media(member, inner, depth, parts);
  }

  // A string, or an object with the string in "url" or "data".
  bool read_media(Member& member, const std::string& path, int depth, PartParts& parts) {
    ondemand::json_type type{};
    if (const auto code = member.value.type().get(type)) return malformed(code);
    if (type == ondemand::json_type::string) {
      parts.data = token_span(member.value);
      parts.data_is_text = true;
      return check_string(path, parts.data);
    }
    if (type != ondemand::json_type::object || member.name == "image_embeds") {
      Span span;
      return walk(member.value, depth + 1, path, span);  // refused below: there is no data
    }
    const std::string_view wanted = member.name == "input_audio" ? "data" : "url";
    ondemand::object object;
    if (const auto code = member.value.get_object().get(object)) return malformed(code);
    return members(object, [&](Member& inner) {
      Span span;
      if (!walk(inner.value, depth + 2, path, span)) return false;
      if (inner.name != wanted) return true;
      if (parts.data.end != 0) {
        return refuse(path, fmt::format("'{}.{}' is given twice", path, wanted), "repeated_field");
      }
      parts.data = span;
      parts.data_is_text = span.of(body_).starts_with('"');
      return true;
    });
  }

  bool finish_part(MediaPart part, PartParts& parts, const std::string& path) {
    const bool media_type = one_of(kMediaTypes, parts.type);
    if (parts.media_key.empty()) {
      if (!media_type && !parts.type.ends_with("_embeds") && parts.type != "image_pil") return true;
      return refuse(path, fmt::format("'{}' has no '{}'", path, parts.type), "missing_field");
    }
    const std::string field = path + "." + parts.media_key;
    if (!one_of(kMediaTypes, parts.media_key)) {
      return refuse(field, fmt::format("'{}' is not accepted here", parts.media_key),
                    "unsupported_media");
    }
    const bool fits = parts.type == parts.media_key ||
                      (parts.type == "input_image" && parts.media_key == "image_url") ||
                      !parts.type_seen;
    if (!fits) {
      return refuse(path + ".type",
                    fmt::format("'{}' is of type '{}' but holds '{}'", path,
                                parts.type.substr(0, 64), parts.media_key),
                    "invalid_value");
    }
    if (!parts.data_is_text) {
      return refuse(field,
                    fmt::format("'{}' must hold the media itself, as text or a URL; a reference to "
                                "media alone is not accepted",
                                field),
                    "missing_media");
    }
    if (parts.media_key == "image_embeds" && !rules_.allow_image_embeds) {
      return refuse(field, "embeddings in the place of an image are not accepted",
                    "unsupported_media");
    }
    if (out_.media.size() == kMediaPartsMax) {
      return refuse("messages", fmt::format("more than {} media items", kMediaPartsMax),
                    "too_many_items");
    }
    part.type = parts.type_seen ? parts.type : parts.media_key;
    part.data = parts.data;
    part.uuid = parts.uuid;
    part.uuid_value = parts.uuid_value;
    const bool is_url = parts.media_key.ends_with("_url");
    part.remote = is_url && !parts.data.of(body_).starts_with("\"data:");
    out_.media.push_back(std::move(part));
    return true;
  }

  ondemand::document& document_;
  std::string_view body_;
  const ScanRules& rules_;
  ScannedRequest out_;
  OpenAiError error_;
};

}  // namespace

const TopField* ScannedRequest::field(std::string_view name) const noexcept {
  const auto found = std::ranges::find(fields, name, &TopField::name);
  return found == fields.end() ? nullptr : &*found;
}

std::string_view ScannedRequest::text_of(std::string_view name) const noexcept {
  const TopField* found = field(name);
  return found == nullptr ? std::string_view{} : found->value.of(body);
}

struct Scanner::State {
  ondemand::parser parser;
};

Scanner::Scanner() : state_(std::make_unique<State>()) {}
Scanner::~Scanner() = default;

Outcome<ScannedRequest> Scanner::scan(std::string_view body, const ScanRules& rules) {
  ondemand::document document;
  const simdjson::padded_string_view padded(body.data(), body.size(), body.size() + kScanPadding);
  if (const auto code = state_->parser.iterate(padded).get(document)) {
    return std::unexpected(OpenAiError{
        .status = 400,
        .message = fmt::format("the body is not valid JSON: {}", simdjson::error_message(code)),
        .code = "invalid_json"});
  }
  auto scanned = Pass(document, body, rules).run();
  if (state_->parser.capacity() > kKeepParserBytes) state_ = std::make_unique<State>();
  return scanned;
}

}  // namespace sluice::proxy
