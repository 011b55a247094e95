// limits.h: what an HTTP peer may ask of us. All of it is refused or closed, never queued.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::http {

inline constexpr std::size_t kHeaderBytesMax = 16 * 1024;
inline constexpr std::size_t kConnectionsMax = 64;
inline constexpr std::uint64_t kBodyBytesMaxDefault = std::uint64_t{64} << 20;
inline constexpr std::chrono::seconds kHeaderTimeout{
    10};  // until a request's header is complete; an idle connection too
inline constexpr std::chrono::seconds kBodyTimeout{60};   // until its body is complete
inline constexpr std::chrono::seconds kWriteTimeout{60};  // until the answer has left
inline constexpr std::size_t kRefusedBodyBytesMax =
    8 << 20;  // of a refused body, read and dropped before closing
inline constexpr std::chrono::seconds kRefusedBodyTimeout{2};
inline constexpr std::size_t kTargetBytesMax = 8 * 1024;

}  // namespace sluice::http
