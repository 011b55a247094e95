// serving_place.h: where the serving path of a deployment is to be found: its proxy, the token that
// opens it, its engines.
//
// Failure: kInvalidArgument for an address that is none, and as read_topology().
#pragma once

#include <string>
#include <vector>

#include <sluice/error.h>

namespace sluice::cli {

struct Topology;

struct EnginePlace {
  std::string name;     // of the topology file; empty: only its address is known
  std::string role;     // as the proxy says it
  std::string address;  // http://127.0.0.1:8001
};

struct ServingPlace {
  std::string proxy;                 // address; empty: none
  std::string token;                 // empty: none
  std::string token_problem;         // why there is none, if one was named
  std::vector<EnginePlace> engines;  // known without asking the proxy

  bool empty() const noexcept { return proxy.empty() && engines.empty(); }
};

// As a topology file describes it. The token is the file's own `token-file`, or the one that
// `sluice up` made.
ServingPlace place_of(const Topology& topology);

}  // namespace sluice::cli
