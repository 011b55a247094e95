#include "proxy/answer_facts.h"

#include <simdjson.h>

namespace sluice::proxy {
namespace {

namespace ondemand = simdjson::ondemand;

bool is_text(ondemand::value& value) {
  ondemand::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return false;
  if (type == ondemand::json_type::null) return false;
  if (type != ondemand::json_type::string) return true;  // a list of tool calls, an object
  return !value.raw_json_token().starts_with("\"\"");
}

bool names_content(std::string_view key) {
  return key == "content" || key == "reasoning" || key == "reasoning_content" ||
         key == "tool_calls" || key == "function_call" || key == "refusal" || key == "audio" ||
         key == "text";
}

// What a walk over a part of an event found. After an error the document must not be used again.
enum class Found { kNo, kYes, kError };

Found has_content(ondemand::object object) {
  for (auto item : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) != simdjson::SUCCESS) return Found::kError;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return Found::kError;
    ondemand::value value = field.value();
    if (names_content(key) && is_text(value)) return Found::kYes;
  }
  return Found::kNo;
}

// A choice of a chunk: {"index", "delta": {...} or "text", "finish_reason"}.
Found choice_counts(ondemand::object choice) {
  for (auto item : choice) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) != simdjson::SUCCESS) return Found::kError;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return Found::kError;
    ondemand::value value = field.value();
    if (key == "delta" || key == "message") {
      ondemand::object delta;
      if (value.get_object().get(delta) != simdjson::SUCCESS) continue;
      const Found found = has_content(delta);
      if (found != Found::kNo) return found;
    } else if ((key == "text" || key == "finish_reason") && is_text(value)) {
      return Found::kYes;
    }
  }
  return Found::kNo;
}

std::string raw_of(ondemand::value value) {
  ondemand::object object;
  std::string_view raw;
  if (value.get_object().get(object) != simdjson::SUCCESS) return {};
  if (object.raw_json().get(raw) != simdjson::SUCCESS) return {};
  return std::string(raw);
}

}  // namespace

struct AnswerReader::State {
  ondemand::parser parser;
  std::string padded;
  ondemand::document document;

  // The top-level object of `text`, copied to where the parser may read beyond its end.
  std::optional<ondemand::object> open(std::string_view text) {
    padded.assign(text);
    padded.append(simdjson::SIMDJSON_PADDING, '\0');
    const simdjson::padded_string_view view(padded.data(), text.size(), padded.size());
    if (parser.iterate(view).get(document) != simdjson::SUCCESS) return std::nullopt;
    ondemand::object object;
    if (document.get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
    return object;
  }

  // One field of the top-level object. Each opens the text anew: after an error in it a document
  // must not be used again.
  std::string object_of(std::string_view text, std::string_view key) {
    auto object = open(text);
    ondemand::value value;
    if (!object || object->find_field_unordered(key).get(value) != simdjson::SUCCESS) return {};
    return raw_of(value);
  }
  std::string text_of(std::string_view text, std::string_view key) {
    auto object = open(text);
    std::string_view found;
    if (!object || object->find_field_unordered(key).get_string().get(found) != simdjson::SUCCESS) {
      return {};
    }
    return std::string(found);
  }
  bool is_true(std::string_view text, std::string_view key) {
    auto object = open(text);
    bool found = false;
    return object && object->find_field_unordered(key).get_bool().get(found) == simdjson::SUCCESS &&
           found;
  }
};

AnswerReader::AnswerReader() : state_(std::make_unique<State>()) {}
AnswerReader::~AnswerReader() = default;

EventKind AnswerReader::kind_of(std::string_view data) {
  if (data.empty()) return EventKind::kNone;
  if (data == "[DONE]") return EventKind::kDone;
  auto object = state_->open(data);
  if (!object) return EventKind::kNone;
  for (auto item : *object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) != simdjson::SUCCESS) return EventKind::kNone;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return EventKind::kNone;
    ondemand::value value = field.value();
    if (key == "error") return is_text(value) ? EventKind::kError : EventKind::kNone;
    if (key != "choices") continue;
    ondemand::array choices;
    if (value.get_array().get(choices) != simdjson::SUCCESS) return EventKind::kNone;
    for (auto each : choices) {
      ondemand::object choice;
      if (each.get_object().get(choice) != simdjson::SUCCESS) return EventKind::kNone;
      const Found found = choice_counts(choice);
      if (found == Found::kYes) return EventKind::kContent;
      if (found == Found::kError) return EventKind::kNone;
    }
  }
  return EventKind::kNone;
}

std::optional<EncodedItem> AnswerReader::encoded_item(std::string_view body) {
  auto object = state_->open(body);
  if (!object) return std::nullopt;
  ondemand::object items;
  if (object->find_field_unordered("ec_transfer_params").get_object().get(items) !=
      simdjson::SUCCESS) {
    return std::nullopt;
  }
  for (auto item : items) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) != simdjson::SUCCESS) return std::nullopt;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return std::nullopt;
    EncodedItem out;
    out.identifier = key;
    ondemand::object entry;
    if (field.value().get_object().get(entry) != simdjson::SUCCESS) return std::nullopt;
    std::string_view raw;
    if (entry.raw_json().get(raw) != simdjson::SUCCESS) return std::nullopt;
    out.entry = raw;
    // The entry was read to its end; its fields are read again from their own text.
    State fields;
    out.state = fields.text_of(out.entry, "state");
    out.metadata = fields.object_of(out.entry, "metadata");
    return out;
  }
  return std::nullopt;
}

std::optional<HandoffAnswer> AnswerReader::handoff(std::string_view body) {
  HandoffAnswer out;
  out.params = state_->object_of(body, "kv_transfer_params");
  if (out.params.empty()) return std::nullopt;
  out.committed = state_->is_true(out.params, "do_remote_prefill");
  out.reason = state_->text_of(out.params, "reason");
  return out;
}

std::string AnswerReader::error_message(std::string_view body) {
  const std::string error = state_->object_of(body, "error");
  return state_->text_of(error, "message");
}

bool looks_like_error(std::string_view data) noexcept {
  if (!data.starts_with('{')) return false;
  const std::size_t key = data.find_first_not_of(" \t", 1);
  return key != std::string_view::npos && data.substr(key).starts_with("\"error\"");
}

}  // namespace sluice::proxy
