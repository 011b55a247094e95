// media_digest.h: the name of a media item whose bytes are in the request.
//
// Pure. docs/protocols/serving.md defines it; the media is read once and not copied.
#pragma once

#include <string>
#include <string_view>

namespace sluice::proxy {

// 32 hex digits. `data` is the JSON text of the URL or data, quotes included.
std::string media_digest(std::string_view tenant, std::string_view type, std::string_view data);

// 32 hex digits of `text`: for what must be compared but not kept.
std::string text_digest(std::string_view text);

// 32 hex digits from the operating system's random numbers.
std::string random_name();

}  // namespace sluice::proxy
