// arena_side.h: what an engine with a connector leaves in the arena: its record, and features.
//
// Threads: one. put() waits for the daemon.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sluice/client.h>
#include <sluice/error.h>

namespace sluice::stub {

class ArenaSide {
 public:
  // Attaches and posts the record of an engine of this role. `prefix` is the key text before "@id:".
  static Result<ArenaSide> attach(const std::string& directory, std::string prefix,
                                  std::string_view role);

  // A feature of 192 rows for a grid of 1 x 24 x 32.
  Status put(std::string_view identifier);
  // A hand-off of one part, committed.
  Status put_handoff(std::string_view handoff);

 private:
  Status put(const Result<ObjectKey>& key, const Attributes& attributes);

  ArenaSide(std::unique_ptr<Client> client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}

  std::unique_ptr<Client> client_;
  std::string prefix_;
};

}  // namespace sluice::stub
