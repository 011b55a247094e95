// openai_request.h: what a request's body says, found in one pass and nothing of it copied.
//
// Invariant: every span lies inside the body, and the spans of fields and of media parts are those
//            of whole JSON values, so that cutting one out or putting another in its place leaves
//            valid JSON. A body that two readers could understand differently (a field given twice)
//            and one that carries what only this proxy may say (transfer parameters, a reference
//            without its data) are refused.
// Threads:   one Scanner per thread; a ScannedRequest borrows from the body it was made of.
// Failure:   an OpenAiError (400) that names the field.
// Limits:    depth 64, 256 top-level fields, 1024 media parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/openai_error.h"

namespace sluice::proxy {

inline constexpr int kJsonDepthMax = 64;
inline constexpr std::size_t kFieldsMax = 256;
inline constexpr std::size_t kMediaPartsMax = 1024;
inline constexpr std::size_t kScanPadding = 64;  // readable bytes that must follow a body

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view of(std::string_view body) const { return body.substr(begin, end - begin); }
};

struct TopField {
  std::string name;  // unescaped
  Span slot;         // its key's quote to the end of its value
  Span value;
};

struct MediaPart {
  std::string type;     // image_url, video_url, audio_url, input_audio, image_embeds, input_image
  Span part;            // the whole object
  Span data;            // the JSON string of its URL or data, quotes included
  Span uuid;            // the caller's "uuid" member, key to value's end; empty: none
  Span uuid_value;      // the JSON string
  bool remote = false;  // a URL whose bytes are not in the request
};

struct ScannedRequest {
  std::string_view body;
  Span object;  // the braces included
  std::vector<TopField> fields;
  std::vector<MediaPart> media;  // in the order of the body
  std::string model;
  bool stream = false;
  std::uint64_t n = 1;

  const TopField* field(std::string_view name) const noexcept;
  // The JSON text of a field's value; empty when there is none.
  std::string_view text_of(std::string_view name) const noexcept;
};

struct ScanRules {
  bool model_needed = true;
  bool allow_image_embeds = false;  // with their data; a reference alone is never allowed
};

class Scanner {
 public:
  Scanner();
  ~Scanner();
  Scanner(const Scanner&) = delete;
  Scanner& operator=(const Scanner&) = delete;

  // `body` must be followed by kScanPadding readable bytes.
  Outcome<ScannedRequest> scan(std::string_view body, const ScanRules& rules);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::proxy
