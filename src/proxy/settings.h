// settings.h: what an operator decides about the proxy, typed and checked by apps/sluice-proxy.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice::proxy {

enum class OnFailure : std::uint8_t { kFallback, kFail };
enum class DecodeDispatch : std::uint8_t {
  kAfterCommit,   // when prefill has answered
  kAtFirstGroup,  // when the first layer group of the hand-off is in the arena
};
enum class WhenEncoderEmpty : std::uint8_t { kPrefill, kRefuse };

struct Settings {
  std::string tenant = "default";
  std::string token;          // empty: none
  std::string engine_token;   // said to engines; empty: none
  bool token_always = false;  // clients on loopback need the token as well
  bool forward_media = false;
  bool allow_image_embeds = false;
  bool allow_remote_engines = false;
  OnFailure on_failure = OnFailure::kFallback;
  DecodeDispatch decode_dispatch = DecodeDispatch::kAfterCommit;
  WhenEncoderEmpty when_encoder_empty = WhenEncoderEmpty::kPrefill;
  std::uint32_t tries_max = 3;  // of a stage
  std::uint64_t body_bytes_max = 64u << 20;
  std::uint64_t answer_bytes_max = 64u << 20;  // of an answer that is not streamed
  std::uint64_t event_bytes_max = 8u << 20;
  std::chrono::milliseconds request_timeout{600'000};
  std::chrono::milliseconds request_timeout_max{3'600'000};  // that a header may ask for
  std::chrono::milliseconds engine_keep_alive{5'000};
  std::chrono::milliseconds connect_timeout{2'000};
  std::chrono::milliseconds health_interval{2'000};
  std::chrono::milliseconds health_timeout{1'000};
  std::size_t learned_items_max = 65'536;
  std::size_t aliases_max = 65'536;
};

}  // namespace sluice::proxy
