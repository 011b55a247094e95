// ask.h: what one request asks of an engine, as far as the stub looks at it. Pure.
//
// Whole bodies are parsed for tests. A benchmark's stub looks only at the ends of a body, where the
// fields lie that a proxy adds, so that it costs as little as a fixed answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

#include "script.h"

namespace sluice::stub {

struct Part {
  std::string type;
  std::string uuid;
  std::string remote;     // a URL that is not data
  bool has_media = true;  // false: only a reference
};

struct Ask {
  bool stream = false;
  bool usage_chunk = false;
  std::uint64_t max_tokens = 4;
  std::uint64_t choices = 1;
  std::string model;
  std::string handoff;  // sluice_handoff of kv_transfer_params
  bool remote_decode = false;
  std::string kv_params;  // JSON text, or empty
  std::string ec_params;
  std::string processor;  // JSON text of mm_processor_kwargs
  std::vector<Part> parts;
  Script script;
  bool scripted = false;  // the request carries its own script
};

// `body` has the padding of Buffer behind it. kInvalidArgument when it is not a JSON object.
Result<Ask> ask_of(std::string_view body, std::string_view role);
Ask ask_of_ends(std::string_view body);

}  // namespace sluice::stub
