#include "serving_view.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace sluice::cli {
namespace {

using metrics::Match;
using metrics::Reading;
using metrics::Sample;

// In the order of a request.
constexpr std::string_view kRoles[] = {"encoder", "prefill", "decode", "prefill_decode",
                                       "colocated"};

// One process now and before.
class Change {
 public:
  Change(const Reading& later, const Reading* earlier, double seconds)
      : later_(later), earlier_(earlier), seconds_(seconds) {}

  double total(std::string_view name, const Match& match = {}) const {
    return later_.sum(name, match);
  }
  Counter counter(std::string_view name, const Match& match = {}) const {
    Counter out{.total = total(name, match), .per_s = {}};
    if (earlier_ == nullptr || seconds_ <= 0) return out;
    const double before = earlier_->sum(name, match);
    // A counter that went back belongs to another process, which began from zero.
    out.per_s = (out.total >= before ? out.total - before : out.total) / seconds_;
    return out;
  }
  metrics::Buckets buckets(std::string_view name, const Match& match = {}) const {
    metrics::Buckets later = later_.histogram(name, match);
    return earlier_ == nullptr ? later
                               : metrics::difference(later, earlier_->histogram(name, match));
  }
  Spread spread(std::string_view name, const Match& match = {}) const {
    return spread_of(buckets(name, match));
  }
  // By the value of one label.
  Causes causes(std::string_view name, std::string_view label) const {
    Causes out;
    for (const Sample& sample : later_.samples()) {
      if (sample.name == name && sample.value > 0)
        out.emplace_back(std::string(sample.label(label)), sample.value);
    }
    return out;
  }

 private:
  const Reading& later_;
  const Reading* earlier_;
  double seconds_;
};

Counter& operator+=(Counter& to, const Counter& more) {
  to.total += more.total;
  if (more.per_s) to.per_s = to.per_s.value_or(0) + *more.per_s;
  return to;
}

Match of_role(std::string_view role) {
  return [role](const Sample& sample) { return sample.label("role") == role; };
}

Match labelled(std::string_view label, std::string_view value) {
  return [=](const Sample& sample) { return sample.label(label) == value; };
}

const Reading* reading_of(const ServingSample* sample, const std::string& address) {
  if (sample == nullptr) return nullptr;
  const auto found = sample->engines.find(address);
  return found != sample->engines.end() && found->second ? &*found->second : nullptr;
}

EndpointView endpoint_of(const ServingPlace& place, const ServingSample& sample,
                         const std::optional<Change>& change) {
  EndpointView out{.address = place.proxy};
  if (!sample.listed) {
    out.listing_trouble = sample.listed.error().message;
    if (!place.token_problem.empty()) out.listing_trouble += "; " + place.token_problem;
  }
  if (!change) {
    out.trouble = sample.proxy.error().message;
    return out;
  }
  out.ready = change->total("sluice_proxy_ready") > 0;
  out.draining = change->total("sluice_proxy_draining") > 0;
  out.connections = change->total("sluice_proxy_connections");
  out.requests = change->counter("sluice_proxy_requests_total");
  out.events = change->counter("sluice_proxy_events_total");
  const auto answered = [&](std::string_view kind) {
    return change->total("sluice_proxy_answers_total", labelled("class", kind));
  };
  out.answered_2xx = answered("2xx");
  out.answered_4xx = answered("4xx");
  out.answered_5xx = answered("5xx");
  out.clients_gone = change->total("sluice_proxy_clients_gone_total");
  out.streams_broken = change->total("sluice_proxy_streams_broken_total");
  out.request = change->spread("sluice_proxy_request_seconds");
  out.first_token = change->spread("sluice_proxy_time_to_first_token_seconds");
  out.between_tokens = change->spread("sluice_proxy_time_between_tokens_seconds");
  out.refusals = change->causes("sluice_proxy_refusals_total", "cause");
  return out;
}

ServerView stage_of(std::string_view role, const std::optional<Change>& change) {
  ServerView out{.role = std::string(role)};
  if (!change) return out;
  const Match match = of_role(role);
  out.instances = static_cast<std::uint64_t>(change->total("sluice_proxy_instances", match));
  out.usable = static_cast<std::uint64_t>(change->total("sluice_proxy_instances_healthy", match));
  out.running = change->total("sluice_proxy_stage_running", match);
  out.waiting = change->total("sluice_proxy_stage_waiting", match);
  out.served = change->counter("sluice_proxy_stage_requests_total", match);
  out.errors = change->total("sluice_proxy_stage_failures_total", match);
  out.retries = change->total("sluice_proxy_stage_retries_total", match);
  out.queue = change->spread("sluice_proxy_stage_queue_seconds", match);
  out.service = change->spread("sluice_proxy_stage_service_seconds", match);
  return out;
}

// What vLLM says of itself.
void read_engine(const Change& change, ServerView& to) {
  to.running = change.total("vllm:num_requests_running");
  to.waiting = change.total("vllm:num_requests_waiting");
  to.served = change.counter("vllm:request_success_total");
  to.errors = change.total("vllm:request_success_total", labelled("finished_reason", "error")) +
              change.total("vllm:corrupted_requests_total");
  to.preemptions = change.total("vllm:num_preemptions_total");
  to.queue = change.spread("vllm:request_queue_time_seconds");
  to.service = change.spread("vllm:e2e_request_latency_seconds");
  to.first_token = change.spread("vllm:time_to_first_token_seconds");
  to.between_tokens = change.spread("vllm:inter_token_latency_seconds");
}

// Counts of the connectors that are causes by their names.
void add_causes(const Reading& reading, std::string_view start, Causes& to) {
  for (const Sample& sample : reading.samples()) {
    std::string_view name = sample.name;
    if (!name.starts_with(start) || !name.ends_with("_total") || !(sample.value > 0)) continue;
    name.remove_prefix(start.size());
    name.remove_suffix(std::string_view("_total").size());
    const auto known =
        std::ranges::find_if(to, [&](const auto& cause) { return cause.first == name; });
    if (known == to.end()) {
      to.emplace_back(std::string(name), sample.value);
    } else {
      known->second += sample.value;
    }
  }
}

void add_engine(const Change& change, const Reading& reading, ServingView& view) {
  FeaturesView& features = view.features;
  features.hits += change.counter("sluice_ec_hits_total");
  features.misses += change.total("sluice_ec_misses_total");
  features.read_bytes += change.counter("sluice_ec_load_bytes_total");
  features.written_bytes += change.counter("sluice_ec_save_bytes_total");
  features.local_encodes += change.total("sluice_ec_local_encodes_total");
  features.corrupt += change.total("sluice_ec_corrupt_total");
  add_causes(reading, "sluice_ec_fallback_", features.fallbacks);
  HandoffsView& handoffs = view.handoffs;
  handoffs.sent_bytes += change.counter("sluice_kv_bytes_sent_total");
  handoffs.received_bytes += change.counter("sluice_kv_bytes_received_total");
  handoffs.send_failures += change.total("sluice_kv_send_failures_total");
  handoffs.receive_failures += change.total("sluice_kv_receive_failures_total");
  handoffs.uncommitted += change.total("sluice_kv_uncommitted_total");
  add_causes(reading, "sluice_kv_failed_", handoffs.fallbacks);
}

void add_proxy(const Change& change, ServingView& view) {
  FeaturesView& features = view.features;
  features.items = change.counter("sluice_proxy_media_items_total");
  features.encodes = change.counter("sluice_proxy_encodes_total");
  features.skipped = change.total("sluice_proxy_encodes_skipped_total");
  features.coalesced = change.total("sluice_proxy_encodes_coalesced_total");
  view.handoffs.committed = change.counter("sluice_proxy_handoffs_committed_total");
  for (auto& [cause, count] : change.causes("sluice_proxy_fallbacks_total", "cause")) {
    const bool of_handoff = cause.starts_with("prefill") || cause == "no_handoff";
    (of_handoff ? view.handoffs.fallbacks : features.fallbacks).emplace_back(cause, count);
  }
}

// The engines that the place and the proxy know, each once.
std::vector<ServerView> engines_of(const ServingPlace& place, const ServingSample& sample) {
  std::vector<ServerView> out;
  out.reserve(place.engines.size());
  for (const EnginePlace& engine : place.engines)
    out.push_back({.name = engine.name, .role = engine.role, .address = engine.address});
  if (!sample.listed) return out;
  for (const ListedInstance& listed : *sample.listed) {
    auto known = std::ranges::find_if(out, [&](const ServerView& engine) {
      return engine.address == listed.address && engine.role == listed.role;
    });
    if (known == out.end())
      known = out.insert(out.end(), {.role = listed.role, .address = listed.address});
    known->healthy = listed.healthy;
    known->answered = listed.answered;
    known->running = listed.running;
  }
  return out;
}

StageView& stage_for(std::vector<StageView>& stages, const std::string& role) {
  const auto known =
      std::ranges::find_if(stages, [&](const StageView& view) { return view.stage.role == role; });
  if (known != stages.end()) return *known;
  return stages.emplace_back(StageView{.stage = {.role = role}, .engines = {}});
}

// First tokens and the times between tokens of a stage are those of its engines together.
void sum_tokens(StageView& view, const ServingSample& sample, const ServingSample* before) {
  metrics::Buckets first, between;
  for (const ServerView& engine : view.engines) {
    const Reading* later = reading_of(&sample, engine.address);
    if (later == nullptr) continue;
    const Change change(*later, reading_of(before, engine.address), 0);
    metrics::add(first, change.buckets("vllm:time_to_first_token_seconds"));
    metrics::add(between, change.buckets("vllm:inter_token_latency_seconds"));
  }
  view.stage.first_token = spread_of(first);
  view.stage.between_tokens = spread_of(between);
}

}  // namespace

Spread spread_of(const metrics::Buckets& buckets) {
  return {metrics::quantile(buckets, 0.5), metrics::quantile(buckets, 0.99),
          buckets.bounds.empty() ? 0 : buckets.bounds.front()};
}

ServingView view_of(const ServingPlace& place, const ServingSample& sample,
                    const ServingSample* before) {
  ServingView view;
  double seconds = 0;
  if (before != nullptr && sample.time > before->time) {
    seconds = static_cast<double>(sample.time - before->time) / 1e9;
    view.seconds = seconds;
  }
  std::optional<Change> proxy;
  if (sample.proxy) {
    const bool compared = before != nullptr && before->proxy;
    proxy.emplace(*sample.proxy, compared ? &*before->proxy : nullptr, seconds);
    add_proxy(*proxy, view);
  }
  view.endpoint = endpoint_of(place, sample, proxy);
  for (const std::string_view role : kRoles) {
    ServerView stage = stage_of(role, proxy);
    if (stage.instances > 0 || stage.served.total > 0)
      view.stages.push_back({.stage = std::move(stage), .engines = {}});
  }
  for (ServerView& engine : engines_of(place, sample)) {
    const auto found = sample.engines.find(engine.address);
    if (found != sample.engines.end() && found->second) {
      const Change change(*found->second, reading_of(before, engine.address), seconds);
      read_engine(change, engine);
      add_engine(change, *found->second, view);
    } else {
      engine.trouble = found == sample.engines.end() ? "not asked" : found->second.error().message;
    }
    stage_for(view.stages, engine.role).engines.push_back(std::move(engine));
  }
  for (StageView& stage : view.stages) sum_tokens(stage, sample, before);
  return view;
}

std::uint64_t open_handoffs(const std::vector<ObjectInfo>& objects) {
  std::set<std::string_view> open;
  for (const ObjectInfo& object : objects) {
    // ...@kind:kv_handoff@...@id:HANDOFF.GENERATION.RANK.SEQUENCE
    const std::string_view key = object.key;
    if (key.find("@kind:kv_handoff@") == std::string_view::npos) continue;
    const std::size_t id = key.rfind("@id:");
    if (id == std::string_view::npos) continue;
    const std::string_view name = key.substr(id + 4);
    open.insert(name.substr(0, name.find('.')));
  }
  return open.size();
}

}  // namespace sluice::cli
