#include "proxy/health_prober.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

namespace sluice::proxy {
namespace {

constexpr std::size_t kHealthBytesMax = 64 * 1024;

}  // namespace

void HealthProber::start() {
  boost::asio::co_spawn(worker_.io(), keep_probing(), boost::asio::detached);
}

void HealthProber::wake() {
  boost::asio::post(worker_.io(), [this] {
    if (pause_ != nullptr) pause_->open();
  });
}

boost::asio::awaitable<void> HealthProber::keep_probing() {
  while (true) {
    Gate pause(worker_.io().get_executor());
    pause_ = &pause;
    for (const InstanceView& view : core_.director.list()) {
      if (!asked_.insert(view.instance->id).second) continue;
      boost::asio::co_spawn(worker_.io(), probe(view.instance), boost::asio::detached);
    }
    co_await pause.wait(deadline_after(now(), core_.settings.health_interval));
    pause_ = nullptr;
  }
}

boost::asio::awaitable<void> HealthProber::probe(std::shared_ptr<const Instance> instance) {
  const bool healthy = co_await is_healthy(*instance);
  core_.director.report(instance->id,
                        healthy ? sched::HealthEvent::kProbeGood : sched::HealthEvent::kProbeBad);
  asked_.erase(instance->id);
}

boost::asio::awaitable<bool> HealthProber::is_healthy(const Instance& instance) {
  // Never over a kept connection: a probe asks whether the engine takes new ones.
  const auto upstream =
      http::Upstream::make(worker_.io(), {.endpoint = instance.spec.endpoint,
                                          .connect_timeout = core_.settings.health_timeout,
                                          .idle_max = std::chrono::milliseconds(0)});
  http::UpstreamRequest request;
  request.method = "GET";
  request.target = "/health";
  const std::string& token = core_.settings.engine_token;
  if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
  request.deadline = time_point_of(deadline_after(now(), core_.settings.health_timeout));
  auto call = co_await upstream->send(request, nullptr);
  if (!call || (*call)->status() >= 300) co_return false;
  const auto rest = co_await (*call)->read_all(kHealthBytesMax);
  co_return rest.has_value();
}

}  // namespace sluice::proxy
