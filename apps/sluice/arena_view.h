// arena_view.h: one look at an arena and its processes, and how that is shown.
//
// Failure: no arena is a sample that says why; the next look tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <sluice/client.h>

#include "base/clock.h"
#include "commands.h"
#include "output.h"

namespace sluice::cli {

struct ArenaSample {
  Instant time = 0;
  std::optional<Error> trouble;  // why there is nothing else
  ArenaStats stats;
  std::vector<ClientInfo> clients;
  std::optional<std::uint64_t> open_handoffs;  // nothing: too many objects to look through
};

// Attached while there is something to attach to.
class ArenaWatch {
 public:
  explicit ArenaWatch(Global global) : global_(std::move(global)) {}
  ArenaSample look();

 private:
  Global global_;
  std::unique_ptr<Client> client_;
};

void print(const Output& out, const ArenaSample& before, const ArenaSample& sample);
void add_json(const ArenaSample& sample, nlohmann::ordered_json& to);

}  // namespace sluice::cli
