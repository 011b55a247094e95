// answers.h: the texts that a scripted engine answers with. Pure.
//
// Tokens are numbers: token k of every choice is " k", so that a lost, doubled, merged or reordered
// one is seen. Answers carry the transfer parameters of their role, decode's too, so that a proxy
// that does not strip them is seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ask.h"

namespace sluice::stub {

enum class Api : std::uint8_t { kChat, kCompletions, kResponses };

struct Engine {
  std::string role = "colocated";
  std::string model = "stub";
  bool derives_identifiers = false;  // as an engine does that has processor arguments itself
};

// What an encoder calls an item: its uuid, unless arguments change what it computes.
std::string identifier_of(const Part& part, const Ask& ask, const Engine& engine);

std::string whole_answer(Api api, const Ask& ask, const Engine& engine);

// A stream: `prelude`, then token_event() for each of token_count(), then `epilogue`.
std::uint64_t token_count(const Ask& ask);
std::string prelude(Api api, const Ask& ask, const Engine& engine);
std::string token_event(Api api, const Ask& ask, const Engine& engine, std::uint64_t number);
std::string epilogue(Api api, const Ask& ask, const Engine& engine, bool done);

std::string error_object(std::string_view message, std::uint64_t code);
std::string models_answer(const Engine& engine);

// HTTP around them.
std::string whole_head(std::uint64_t status, std::size_t body_bytes, std::string_view more = {},
                       bool close = false);
std::string stream_head(std::string_view more = {});
std::string chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace sluice::stub
