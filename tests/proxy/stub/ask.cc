#include "ask.h"

#include <algorithm>

#include <simdjson.h>

namespace sluice::stub {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kEndBytes = 4096;

std::string text_of(simdjson::simdjson_result<dom::element> value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

std::string json_of(simdjson::simdjson_result<dom::element> value) {
  dom::element element;
  return value.get(element) == simdjson::SUCCESS ? simdjson::minify(element) : std::string();
}

std::uint64_t number_of(simdjson::simdjson_result<dom::element> value, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  return value.get(number) == simdjson::SUCCESS ? number : otherwise;
}

bool flag_of(simdjson::simdjson_result<dom::element> value) {
  bool flag = false;
  return value.get(flag) == simdjson::SUCCESS && flag;
}

// Every part of a message's content but text; its data is not kept.
void add_part(dom::object object, Ask& ask) {
  Part part{.type = text_of(object["type"]), .uuid = text_of(object["uuid"]), .remote = {}};
  if (part.type.empty() || part.type == "text") return;
  dom::element value;
  part.has_media = object[part.type].get(value) == simdjson::SUCCESS && !value.is_null();
  dom::object inner;
  if (value.get(inner) == simdjson::SUCCESS) {
    const std::string url = text_of(inner["url"]);
    if (url.starts_with("http")) part.remote = url;
    if (part.type == "image_embeds") part.has_media = false;
  }
  ask.parts.push_back(std::move(part));
}

void add_parts(dom::element root, Ask& ask) {
  dom::array messages;
  if (root["messages"].get(messages) != simdjson::SUCCESS) return;
  for (dom::element message : messages) {
    dom::array content;
    if (message["content"].get(content) != simdjson::SUCCESS) continue;
    for (dom::element part : content) {
      dom::object object;
      if (part.get(object) == simdjson::SUCCESS) add_part(object, ask);
    }
  }
}

std::string_view value_after(std::string_view text, std::string_view name, std::size_t bytes) {
  const auto at = text.rfind(name);
  if (at == std::string_view::npos) return {};
  const auto quote = text.find('"', at + name.size() + 1);
  return quote == std::string_view::npos ? std::string_view{} : text.substr(quote + 1, bytes);
}

}  // namespace

Result<Ask> ask_of(std::string_view body, std::string_view role) {
  thread_local dom::parser parser;  // its buffers are worth keeping
  dom::element root;
  if (parser.parse(body.data(), body.size(), false).get(root) != simdjson::SUCCESS ||
      !root.is_object()) {
    return fail(Code::kInvalidArgument, "the body is not a JSON object");
  }
  Ask ask;
  ask.stream = flag_of(root["stream"]);
  ask.usage_chunk = flag_of(root["stream_options"]["include_usage"]);
  ask.max_tokens = number_of(root["max_completion_tokens"], number_of(root["max_tokens"], 4));
  ask.choices = std::max<std::uint64_t>(1, number_of(root["n"], 1));
  ask.model = text_of(root["model"]);
  ask.handoff = text_of(root["kv_transfer_params"]["sluice_handoff"]);
  ask.remote_decode = flag_of(root["kv_transfer_params"]["do_remote_decode"]);
  ask.kv_params = json_of(root["kv_transfer_params"]);
  ask.ec_params = json_of(root["ec_transfer_params"]);
  ask.processor = json_of(root["mm_processor_kwargs"]);
  add_parts(root, ask);
  if (const std::string script = json_of(root["stub"][role]); !script.empty()) {
    auto parsed = script_from_json(script);
    if (!parsed) return std::unexpected(parsed.error());
    ask.script = std::move(*parsed);
    ask.scripted = true;
  }
  return ask;
}

Ask ask_of_ends(std::string_view body) {
  Ask ask;
  const std::string_view first = body.substr(0, kEndBytes);
  const std::string_view last = body.substr(body.size() - std::min(body.size(), kEndBytes));
  for (const std::string_view end : {first, last}) {
    if (const auto text = value_after(end, "\"sluice_handoff\"", 32); !text.empty()) {
      ask.handoff = text;
    }
    if (const auto text = value_after(end, "\"uuid\"", 32); !text.empty()) {
      ask.parts = {Part{.type = "image_url", .uuid = std::string(text), .remote = {}}};
    }
    if (end.find("\"do_remote_decode\":true") != std::string_view::npos ||
        end.find("\"do_remote_decode\": true") != std::string_view::npos) {
      ask.remote_decode = true;
    }
    if (end.find("\"stream\":true") != std::string_view::npos ||
        end.find("\"stream\": true") != std::string_view::npos) {
      ask.stream = true;
    }
  }
  return ask;
}

}  // namespace sluice::stub
