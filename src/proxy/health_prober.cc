#include "proxy/health_prober.h"

#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "proxy/waiting.h"

namespace sluice::proxy {
namespace {

constexpr std::size_t kHealthBytesMax = 64 * 1024;

// What is being asked now; shared with probes, which end on their own.
using Asked = std::shared_ptr<std::set<sched::InstanceId>>;

boost::asio::awaitable<bool> is_healthy(Core& core, Worker& worker, const Instance& instance) {
  // Never over a kept connection: a probe asks whether the engine takes new ones.
  const auto upstream =
      http::Upstream::make(worker.io(), {.endpoint = instance.spec.endpoint,
                                         .connect_timeout = core.settings.health_timeout,
                                         .idle_max = std::chrono::milliseconds(0)});
  http::UpstreamRequest request;
  request.method = "GET";
  request.target = "/health";
  const std::string& token = core.settings.engine_token;
  if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
  request.deadline = time_point_of(deadline_after(now(), core.settings.health_timeout));
  auto call = co_await upstream->send(request, nullptr);
  if (!call || (*call)->status() >= 300) co_return false;
  const auto rest = co_await (*call)->read_all(kHealthBytesMax);
  co_return rest.has_value();
}

boost::asio::awaitable<void> probe(Core& core, Worker& worker,
                                   std::shared_ptr<const Instance> instance, Asked asked) {
  const bool healthy = co_await is_healthy(core, worker, *instance);
  core.director.report(instance->id,
                       healthy ? sched::HealthEvent::kProbeGood : sched::HealthEvent::kProbeBad);
  asked->erase(instance->id);
}

boost::asio::awaitable<void> keep_probing(Core& core, Worker& worker) {
  const auto asked = std::make_shared<std::set<sched::InstanceId>>();
  while (true) {
    for (const InstanceView& view : core.director.list()) {
      if (!asked->insert(view.instance->id).second) continue;
      boost::asio::co_spawn(worker.io(), probe(core, worker, view.instance, asked),
                            boost::asio::detached);
    }
    Gate pause(worker.io().get_executor());
    co_await pause.wait(deadline_after(now(), core.settings.health_interval));
  }
}

}  // namespace

void start_probing(Core& core, Worker& worker) {
  boost::asio::co_spawn(worker.io(), keep_probing(core, worker), boost::asio::detached);
}

}  // namespace sluice::proxy
