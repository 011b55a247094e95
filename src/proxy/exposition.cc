#include "proxy/exposition.h"

#include <string_view>
#include <vector>

#include "metrics/families.h"

namespace sluice::proxy {
namespace {

using metrics::Families;
using metrics::Labels;

// The sum over all workers.
class Sum {
 public:
  explicit Sum(std::span<const Meter* const> meters) : meters_(meters) {}

  template <class Pick>
  std::uint64_t of(Pick pick) const {
    std::uint64_t sum = 0;
    for (const Meter* meter : meters_) sum += pick(*meter).load(std::memory_order_relaxed);
    return sum;
  }

  template <class Pick>
  metrics::HistogramValue histogram(Pick pick) const {
    metrics::HistogramValue out;
    out.bounds.assign(kSecondsBuckets.begin(), kSecondsBuckets.end());
    out.counts.assign(kSecondsBuckets.size() + 1, 0);
    std::uint64_t sum_ns = 0;
    for (const Meter* meter : meters_) {
      const Histogram& histogram = pick(*meter);
      for (std::size_t i = 0; i < out.counts.size(); ++i) {
        out.counts[i] += histogram.buckets[i].load(std::memory_order_relaxed);
      }
      sum_ns += histogram.sum_ns.load(std::memory_order_relaxed);
    }
    out.sum = static_cast<double>(sum_ns) / 1e9;
    return out;
  }

 private:
  std::span<const Meter* const> meters_;
};

void add_roles(Families& to, const Sum& sum, const ProxySample& sample) {
  for (std::size_t role = 0; role < kRoles.size(); ++role) {
    const Labels labels = {{"role", std::string(kRoles[role].name)}};
    const PoolView& pool = sample.pools[role];
    to.gauge("sluice_proxy_instances", "Engines that are known.",
             static_cast<double>(pool.instances), labels);
    to.gauge("sluice_proxy_instances_healthy", "Engines that are used now.",
             static_cast<double>(pool.usable), labels);
    to.gauge("sluice_proxy_stage_running", "Requests on engines of the role.", pool.running,
             labels);
    to.gauge("sluice_proxy_stage_waiting", "Requests that wait for such an engine.",
             static_cast<double>(pool.waiting), labels);
    const auto counter = [&](std::string_view name, std::string_view help,
                             Count RoleMeter::* count) {
      to.counter(name, help, sum.of([&](const Meter& meter) -> const Count& {
        return meter.roles[role].*count;
      }),
                 labels);
    };
    counter("sluice_proxy_stage_requests_total", "Tries that were sent.", &RoleMeter::requests);
    counter("sluice_proxy_stage_failures_total", "Tries that failed.", &RoleMeter::failures);
    counter("sluice_proxy_stage_retries_total", "Tries on another engine.", &RoleMeter::retries);
    counter("sluice_proxy_stage_sent_bytes_total", "Bytes of bodies to engines.",
            &RoleMeter::bytes_sent);
    counter("sluice_proxy_stage_received_bytes_total", "Bytes of answers from engines.",
            &RoleMeter::bytes_received);
    const auto connection = [&](std::string_view name, std::string_view help,
                                Count http::UpstreamTotals::* count) {
      to.counter(name, help, sum.of([&](const Meter& meter) -> const Count& {
        return meter.roles[role].connections.*count;
      }),
                 labels);
    };
    connection("sluice_proxy_stage_connections_opened_total", "Connections opened to engines.",
               &http::UpstreamTotals::connects);
    connection("sluice_proxy_stage_connections_reused_total",
               "Requests sent on a connection that had idled.", &http::UpstreamTotals::reuses);
    connection("sluice_proxy_stage_connections_stale_total",
               "Requests sent again because the engine had closed that connection.",
               &http::UpstreamTotals::retries);
    connection("sluice_proxy_stage_connections_failed_total",
               "Requests that no connection brought an answer to.",
               &http::UpstreamTotals::failures);
    const auto histogram = [&](std::string_view name, std::string_view help,
                               Histogram RoleMeter::* which) {
      to.histogram(name, help, sum.histogram([&](const Meter& meter) -> const Histogram& {
        return meter.roles[role].*which;
      }),
                   labels);
    };
    histogram("sluice_proxy_stage_queue_seconds", "Wait for a place on an engine.",
              &RoleMeter::queue);
    histogram("sluice_proxy_stage_service_seconds", "A served try, from its place to its end.",
              &RoleMeter::service);
  }
}

void add_requests(Families& to, const Sum& sum) {
  const auto counter = [&](std::string_view name, std::string_view help, Count Meter::* count,
                           const Labels& labels = {}) {
    to.counter(name, help, sum.of([&](const Meter& meter) -> const Count& { return meter.*count; }),
               labels);
  };
  counter("sluice_proxy_requests_total", "Requests for engines.", &Meter::requests);
  counter("sluice_proxy_answers_total", "Answers by class.", &Meter::answered_2xx,
          {{"class", "2xx"}});
  counter("sluice_proxy_answers_total", "", &Meter::answered_4xx, {{"class", "4xx"}});
  counter("sluice_proxy_answers_total", "", &Meter::answered_5xx, {{"class", "5xx"}});
  counter("sluice_proxy_clients_gone_total", "Clients that left before the end.",
          &Meter::clients_gone);
  counter("sluice_proxy_streams_broken_total", "Streams that ended with an error event.",
          &Meter::streams_broken);
  counter("sluice_proxy_events_total", "Events relayed.", &Meter::events);
  counter("sluice_proxy_media_items_total", "Media items of staged requests.", &Meter::media_items);
  counter("sluice_proxy_encodes_total", "Encodes that were begun.", &Meter::encodes);
  counter("sluice_proxy_encodes_skipped_total", "Items whose feature was in the arena.",
          &Meter::encodes_skipped);
  counter("sluice_proxy_encodes_coalesced_total", "Items that shared another's encode.",
          &Meter::encodes_coalesced);
  counter("sluice_proxy_handoffs_committed_total", "Hand-offs that prefill committed.",
          &Meter::handoffs_committed);
  counter("sluice_proxy_handoffs_ended_total", "Hand-offs that the proxy ended.",
          &Meter::handoffs_ended);
  counter("sluice_proxy_decodes_early_total", "Decodes asked before their hand-off's commit.",
          &Meter::decodes_early);
  counter("sluice_proxy_decodes_early_lost_total",
          "Those that were asked again, since prefill ended with something else.",
          &Meter::decodes_early_lost);
  counter("sluice_proxy_transfer_params_cut_total", "Answers that had transfer parameters.",
          &Meter::transfer_params_cut);
  for (std::size_t i = 0; i < static_cast<std::size_t>(Fallback::kCount); ++i) {
    to.counter("sluice_proxy_fallbacks_total",
               "Requests that went on without a stage or reference.",
               sum.of([&](const Meter& meter) -> const Count& { return meter.fallbacks[i]; }),
               {{"cause", std::string(name(static_cast<Fallback>(i)))}});
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(Cause::kCount); ++i) {
    to.counter("sluice_proxy_refusals_total", "Requests that were refused.",
               sum.of([&](const Meter& meter) -> const Count& { return meter.refusals[i]; }),
               {{"cause", std::string(name(static_cast<Cause>(i)))}});
  }
  const auto histogram = [&](std::string_view name, std::string_view help,
                             Histogram Meter::* which) {
    to.histogram(name, help, sum.histogram([&](const Meter& meter) -> const Histogram& {
      return meter.*which;
    }));
  };
  histogram("sluice_proxy_time_to_first_token_seconds",
            "From a request's header to its first content.", &Meter::time_to_first_token);
  histogram("sluice_proxy_time_between_tokens_seconds", "Between two writes of a stream.",
            &Meter::time_between_tokens);
  histogram("sluice_proxy_request_seconds", "A whole request.", &Meter::request);
}

void add_arena(Families& to, const ProxySample& sample) {
  if (!sample.has_arena) return;
  const FeatureDirectory::Counts& arena = sample.arena;
  to.gauge("sluice_proxy_arena_attached", "1 while the arena's daemon answers.", arena.attached);
  to.gauge("sluice_proxy_arena_prefixes", "Feature prefixes that engines posted.",
           static_cast<double>(arena.prefixes));
  to.counter("sluice_proxy_arena_attaches_total", "Times that an arena was attached.",
             arena.attaches);
  to.counter("sluice_proxy_arena_attach_failures_total", "Tries that found none.",
             arena.attach_failures);
  to.counter("sluice_proxy_arena_handoffs_removed_total", "Hand-offs removed from the arena.",
             arena.ended);
  to.counter("sluice_proxy_arena_handoff_failures_total", "Hand-offs left to their pins.",
             arena.end_failures + arena.end_dropped);
  to.counter("sluice_proxy_arena_objects_removed_total",
             "Parts of hand-offs that were still there.", arena.objects_removed);
}

}  // namespace

std::string metrics_text(std::span<const Meter* const> meters, const ProxySample& sample) {
  Families families;
  const Sum sum(meters);
  families.gauge("sluice_proxy_ready", "1 while requests are taken.", sample.ready);
  families.gauge("sluice_proxy_draining", "1 after SIGTERM.", sample.draining);
  families.counter("sluice_proxy_log_lines_lost_total",
                   "Lines of both logs that were not read in time.", sample.log_lines_lost);
  families.gauge("sluice_proxy_connections", "Open client connections.",
                 static_cast<double>(sample.connections));
  families.gauge("sluice_proxy_encodes_in_flight", "Encodes that somebody waits for.",
                 static_cast<double>(sample.encodes_in_flight));
  add_roles(families, sum, sample);
  add_requests(families, sum);
  add_arena(families, sample);
  return families.text();
}

}  // namespace sluice::proxy
