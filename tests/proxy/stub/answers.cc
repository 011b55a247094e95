#include "answers.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice::stub {
namespace {

constexpr std::uint64_t kPromptTokens = 7;
constexpr std::string_view kDigest = "0123456789abcdef0123456789abcdef";

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump();
}

std::uint64_t fnv(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string usage(const Ask& ask) {
  const std::uint64_t tokens = token_count(ask);
  return fmt::format(R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{}}})",
                     kPromptTokens, kPromptTokens + tokens, tokens);
}

std::string kv_params(const Ask& ask, const Engine& engine) {
  if (engine.role != "prefill") {
    return fmt::format(R"({{"stub_of":{}}})", json_text(engine.role));
  }
  const std::string handoff = json_text(ask.handoff);
  if (!ask.remote_decode) return "null";
  if (!ask.script.reason.empty()) {
    return fmt::format(
        R"({{"do_remote_prefill":false,"do_remote_decode":false,"sluice_handoff":{},"reason":{}}})",
        handoff, json_text(ask.script.reason));
  }
  return fmt::format(
      R"({{"do_remote_prefill":true,"do_remote_decode":false,"sluice_handoff":{},"generation":0,)"
      R"("tokens":{},"digest":"{}","ranks":1}})",
      handoff, kPromptTokens, kDigest);
}

std::string ec_params(const Ask& ask, const Engine& engine) {
  if (ask.parts.empty()) return "null";
  const std::string& state = ask.script.state;
  std::string out;
  for (std::size_t i = 0; i < ask.parts.size(); ++i) {
    const std::string metadata =
        state == "absent" ? "" : R"(,"metadata":{"image_grid_thw":[1,24,32]})";
    out += fmt::format(R"({}{}:{{"state":{},"item_indices":[{}]{}}})", i == 0 ? "" : ",",
                       json_text(identifier_of(ask.parts[i], ask, engine)), json_text(state), i,
                       metadata);
  }
  return fmt::format("{{{}}}", out);
}

std::string params(const Ask& ask, const Engine& engine) {
  return fmt::format(R"("kv_transfer_params":{},"ec_transfer_params":{})", kv_params(ask, engine),
                     ec_params(ask, engine));
}

std::string model_of(const Ask& ask, const Engine& engine) {
  return json_text(ask.model.empty() ? engine.model : ask.model);
}

std::string numbers(std::uint64_t count) {
  std::string out;
  for (std::uint64_t i = 0; i < count; ++i) out += fmt::format(" {}", i);
  return out;
}

std::string text_of(const Ask& ask, const Engine& engine) {
  return engine.role == "encoder" ? "" : numbers(token_count(ask) / ask.choices);
}

std::string stream_event(Api api, const Ask& ask, const Engine& engine, std::string_view choices,
                         std::string_view more) {
  return fmt::format(
      "data: "
      "{{\"id\":\"stub-1\",\"object\":\"{}\",\"created\":1,\"model\":{},\"choices\":[{}]{}}}\n\n",
      api == Api::kChat ? "chat.completion.chunk" : "text_completion", model_of(ask, engine),
      choices, more);
}

std::string_view reason(std::uint64_t status) {
  static constexpr std::array<std::pair<std::uint64_t, std::string_view>, 8> kReasons{
      {{200, "OK"},
       {400, "Bad Request"},
       {404, "Not Found"},
       {405, "Method Not Allowed"},
       {429, "Too Many Requests"},
       {500, "Internal Server Error"},
       {502, "Bad Gateway"},
       {503, "Service Unavailable"}}};
  for (const auto& [code, text] : kReasons) {
    if (code == status) return text;
  }
  return "Other";
}

}  // namespace

std::string identifier_of(const Part& part, const Ask& ask, const Engine& engine) {
  std::string name = part.uuid;
  if (name.empty()) name = fmt::format("{:016x}", fnv(part.remote));
  if (ask.processor.empty() && !engine.derives_identifiers) return name;
  return fmt::format("{:016x}{:016x}", fnv(name), fnv(ask.processor + engine.model));
}

std::uint64_t token_count(const Ask& ask) {
  const std::uint64_t each = ask.script.events != 0 ? ask.script.events : ask.max_tokens;
  return each * ask.choices;
}

std::string whole_answer(Api api, const Ask& ask, const Engine& engine) {
  if (!ask.script.body.empty()) return ask.script.body;
  const std::string text = json_text(text_of(ask, engine));
  if (api == Api::kResponses) {
    return fmt::format(
        R"({{"id":"resp_stub","object":"response","model":{},"status":"completed","output":[{{)"
        R"("type":"message","role":"assistant","content":[{{"type":"output_text","text":{}}}]}}],{}}})",
        model_of(ask, engine), text, params(ask, engine));
  }
  std::string choices;
  for (std::uint64_t i = 0; i < ask.choices; ++i) {
    const std::string said =
        api == Api::kChat ? fmt::format(R"("message":{{"role":"assistant","content":{}}})", text)
                          : fmt::format(R"("text":{})", text);
    choices += fmt::format(R"({}{{"index":{},{},"logprobs":null,"finish_reason":"stop"}})",
                           i == 0 ? "" : ",", i, said);
  }
  return fmt::format(
      R"({{"id":"stub-1","object":"{}","created":1,"model":{},"choices":[{}],"usage":{},{}}})",
      api == Api::kChat ? "chat.completion" : "text_completion", model_of(ask, engine), choices,
      usage(ask), params(ask, engine));
}

std::string prelude(Api api, const Ask& ask, const Engine& engine) {
  if (api == Api::kCompletions) return {};
  if (api == Api::kResponses) {
    return fmt::format(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"model\":{}}}\n\n",
        model_of(ask, engine));
  }
  std::string choices;
  for (std::uint64_t i = 0; i < ask.choices; ++i) {
    choices +=
        fmt::format(R"({}{{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,)"
                    R"("finish_reason":null}})",
                    i == 0 ? "" : ",", i);
  }
  return stream_event(api, ask, engine, choices, "");
}

std::string token_event(Api api, const Ask& ask, const Engine& engine, std::uint64_t number) {
  std::string text = fmt::format(" {}", number / ask.choices);
  if (ask.script.event_bytes != 0) text += " " + std::string(ask.script.event_bytes, 'x');
  if (api == Api::kResponses) {
    return fmt::format(
        "event: response.output_text.delta\n"
        "data: {{\"type\":\"response.output_text.delta\",\"delta\":\"{}\"}}\n\n",
        text);
  }
  const std::uint64_t index = number % ask.choices;
  const std::string choice =
      api == Api::kChat
          ? fmt::format(
                R"({{"index":{},"delta":{{"content":"{}"}},"logprobs":null,"finish_reason":null}})",
                index, text)
          : fmt::format(R"({{"index":{},"text":"{}","logprobs":null,"finish_reason":null}})", index,
                        text);
  return stream_event(api, ask, engine, choice, "");
}

std::string epilogue(Api api, const Ask& ask, const Engine& engine, bool done) {
  if (api == Api::kResponses) {
    return fmt::format(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",{}}}\n\n",
        params(ask, engine));
  }
  std::string out;
  for (std::uint64_t i = 0; i < ask.choices; ++i) {
    const std::string choice =
        fmt::format(R"({{"index":{},{},"logprobs":null,"finish_reason":"stop"}})", i,
                    api == Api::kChat ? R"("delta":{})" : R"("text":"")");
    out += stream_event(api, ask, engine, choice, "," + params(ask, engine));
  }
  if (ask.usage_chunk) {
    out += stream_event(api, ask, engine, "", fmt::format(",\"usage\":{}", usage(ask)));
  }
  if (done) out += "data: [DONE]\n\n";
  return out;
}

std::string error_object(std::string_view message, std::uint64_t code) {
  return fmt::format(R"({{"error":{{"message":{},"type":"StubError","param":null,"code":{}}}}})",
                     json_text(message), code);
}

std::string models_answer(const Engine& engine) {
  return fmt::format(
      R"({{"object":"list","data":[{{"id":{},"object":"model","created":1,"owned_by":"stub"}}]}})",
      json_text(engine.model));
}

std::string whole_head(std::uint64_t status, std::size_t body_bytes, std::string_view more,
                       bool close) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nserver: stub\r\ncontent-type: application/json\r\ncontent-length: {}\r\n"
      "{}{}\r\n",
      status, reason(status), body_bytes, more, close ? "connection: close\r\n" : "");
}

std::string stream_head(std::string_view more) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nserver: stub\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
      "transfer-encoding: chunked\r\n{}\r\n",
      more);
}

std::string chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace sluice::stub
