// instance.h: one engine that the proxy may send requests to.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <sluice/error.h>

#include "http/upstream.h"
#include "sched/choice.h"

namespace sluice::proxy {

struct InstanceSpec {
  std::size_t role = 0;  // of kRoles
  http::Endpoint endpoint;
  std::string arena;                                    // what the engine says it is attached to
  std::optional<std::uint32_t> running_max;             // nothing: the pool's
  std::optional<std::chrono::milliseconds> keep_alive;  // nothing: the setting's
};

struct Instance {
  sched::InstanceId id = 0;
  InstanceSpec spec;
};

// "ROLE=URL". Refuses unknown roles, and hosts beyond loopback unless `allow_remote`: an engine
// trusts whoever reaches it.
Result<InstanceSpec> parse_instance(std::string_view text, bool allow_remote);
Result<InstanceSpec> make_instance(std::string_view role, std::string_view url, bool allow_remote);

// How long a connection to the instance may idle and be used again: strictly below the engine's own
// time, with room for a request on its way. 0: never.
std::chrono::milliseconds reuse_time(std::chrono::milliseconds engine_keep_alive) noexcept;

}  // namespace sluice::proxy
