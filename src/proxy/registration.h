// registration.h: how instances register themselves and are shown: the JSON of /v1/instances.
//
// Pure. Failure: an OpenAiError (400) that names the member.
// Limits: a registration is at most 16 KiB.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/director.h"
#include "proxy/openai_error.h"

namespace sluice::proxy {

inline constexpr std::size_t kRegistrationBytesMax = 16 * 1024;

// {"role": "decode", "url": "http://127.0.0.1:8000", "arena": "default", "running_max": 64,
//  "keep_alive_ms": 5000}; the first two are needed, nothing else is accepted.
Outcome<InstanceSpec> parse_registration(std::string_view text, bool allow_remote);

std::string instance_json(const InstanceView& view);
std::string instances_json(const std::vector<InstanceView>& views);

}  // namespace sluice::proxy
