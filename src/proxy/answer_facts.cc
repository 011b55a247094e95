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

bool has_content(ondemand::object object) {
  for (auto item : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) != simdjson::SUCCESS) return false;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return false;
    ondemand::value value = field.value();
    if (names_content(key) && is_text(value)) return true;
  }
  return false;
}

// A choice of a chunk: {"index", "delta": {...} or "text", "finish_reason"}.
bool choice_counts(ondemand::object choice) {
  for (auto item : choice) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) != simdjson::SUCCESS) return false;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return false;
    ondemand::value value = field.value();
    if (key == "delta" || key == "message") {
      ondemand::object delta;
      if (value.get_object().get(delta) == simdjson::SUCCESS && has_content(delta)) return true;
    } else if ((key == "text" || key == "finish_reason") && is_text(value)) {
      return true;
    }
  }
  return false;
}

std::string text_of(ondemand::object& object, std::string_view key) {
  std::string_view text;
  if (object.find_field_unordered(key).get_string().get(text) != simdjson::SUCCESS) return {};
  return std::string(text);
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
      if (choice_counts(choice)) return EventKind::kContent;
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
    AnswerReader fields;
    auto inner = fields.state_->open(out.entry);
    if (!inner) return std::nullopt;
    out.state = text_of(*inner, "state");
    ondemand::value metadata;
    if (inner->find_field_unordered("metadata").get(metadata) == simdjson::SUCCESS) {
      out.metadata = raw_of(metadata);
    }
    return out;
  }
  return std::nullopt;
}

std::optional<HandoffAnswer> AnswerReader::handoff(std::string_view body) {
  auto object = state_->open(body);
  if (!object) return std::nullopt;
  ondemand::value params;
  if (object->find_field_unordered("kv_transfer_params").get(params) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  HandoffAnswer out;
  out.params = raw_of(params);
  if (out.params.empty()) return std::nullopt;
  AnswerReader fields;
  auto inner = fields.state_->open(out.params);
  if (!inner) return std::nullopt;
  bool remote = false;
  if (inner->find_field_unordered("do_remote_prefill").get_bool().get(remote) ==
      simdjson::SUCCESS) {
    out.committed = remote;
  }
  out.reason = text_of(*inner, "reason");
  return out;
}

std::string AnswerReader::error_message(std::string_view body) {
  auto object = state_->open(body);
  if (!object) return {};
  ondemand::value error;
  if (object->find_field_unordered("error").get(error) != simdjson::SUCCESS) return {};
  ondemand::object inner;
  if (error.get_object().get(inner) != simdjson::SUCCESS) return {};
  return text_of(inner, "message");
}

bool looks_like_error(std::string_view data) noexcept {
  if (!data.starts_with('{')) return false;
  const std::size_t key = data.find_first_not_of(" \t", 1);
  return key != std::string_view::npos && data.substr(key).starts_with("\"error\"");
}

}  // namespace sluice::proxy
