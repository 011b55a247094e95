// serving_view.h: what two looks at the serving path say together: totals, rates, quantiles.
//
// Rates and quantiles are over the time between the looks; with one look there are no rates, and
// quantiles are over all that the process has served.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/client.h>

#include "serving_sample.h"

namespace sluice::cli {

// Of a time, in seconds. Nothing: nobody has measured one.
struct Spread {
  std::optional<double> p50, p99;
  double finest = 0;  // what is shorter than this was not told apart
};

Spread spread_of(const metrics::Buckets& buckets);

struct Counter {
  double total = 0;
  std::optional<double> per_s;
};

// A role of the proxy's, or one engine.
struct ServerView {
  std::string name;                         // of an engine, where a topology file names it
  std::string role;                         // "encoder", "prefill", "decode", ...
  std::string address;                      // of an engine
  std::string trouble;                      // why its numbers are missing; empty: they are not
  std::optional<bool> healthy;              // an engine, as the proxy sees it: in use
  bool answered = false;                    // and it has said that it is healthy
  std::uint64_t instances = 0, usable = 0;  // a role
  double running = 0, waiting = 0;
  Counter served;  // tries, or requests of an engine
  Spread queue, service, first_token, between_tokens;
  double errors = 0, retries = 0, preemptions = 0;
};

struct StageView {
  ServerView stage;
  std::vector<ServerView> engines;
};

using Causes = std::vector<std::pair<std::string, double>>;  // those that are not 0

struct EndpointView {
  std::string address;
  std::string trouble;          // why its numbers are missing
  std::string listing_trouble;  // why its list of engines is missing
  bool ready = false, draining = false;
  double connections = 0;
  Counter requests, events;
  double answered_2xx = 0, answered_4xx = 0, answered_5xx = 0, clients_gone = 0, streams_broken = 0;
  Spread request, first_token, between_tokens;
  Causes refusals;
};

struct FeaturesView {
  Counter items, encodes;
  double skipped = 0, coalesced = 0;        // by the proxy
  Counter hits, read_bytes, written_bytes;  // by the engines
  double misses = 0, local_encodes = 0, corrupt = 0;
  Causes fallbacks;
};

struct HandoffsView {
  std::optional<std::uint64_t> open;  // with parts in the arena; nothing: not known
  std::uint64_t parts = 0, parts_bytes = 0;
  Counter committed, sent_bytes, received_bytes;
  double send_failures = 0, receive_failures = 0, uncommitted = 0;
  Causes fallbacks;
};

struct ServingView {
  std::optional<double> seconds;  // that rates and quantiles are over; nothing: since the start
  EndpointView endpoint;
  std::vector<StageView> stages;  // those that have an engine or were asked
  FeaturesView features;
  HandoffsView handoffs;
};

// `before` may be null. What the arena says of hand-offs is added by the caller.
ServingView view_of(const ServingPlace& place, const ServingSample& sample,
                    const ServingSample* before);

// Hand-offs that have parts among these objects.
std::uint64_t open_handoffs(const std::vector<ObjectInfo>& objects);

}  // namespace sluice::cli
