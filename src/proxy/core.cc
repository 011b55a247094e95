#include "proxy/core.h"

#include <algorithm>
#include <charconv>

namespace sluice::proxy {

std::shared_ptr<http::Upstream> Worker::upstream(const Instance& instance) {
  const auto found = upstreams_.find(instance.id);
  if (found != upstreams_.end()) return found->second.upstream;
  const auto keep_alive = instance.spec.keep_alive.value_or(core_.settings.engine_keep_alive);
  std::shared_ptr<http::Upstream> made =
      http::Upstream::make(*io_, {.endpoint = instance.spec.endpoint,
                                  .connect_timeout = core_.settings.connect_timeout,
                                  .idle_max = reuse_time(keep_alive),
                                  .totals = &meter.roles[instance.spec.role].connections});
  upstreams_[instance.id] = {made, keep_alive};
  return made;
}

void Worker::learn_keep_alive(const Instance& instance, std::string_view header) {
  constexpr std::string_view kTimeout = "timeout=";
  const std::size_t at = header.find(kTimeout);
  if (at == std::string_view::npos) return;
  const std::string_view digits = header.substr(at + kTimeout.size());
  std::uint32_t seconds = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  if (read.ec != std::errc{}) return;
  const auto found = upstreams_.find(instance.id);
  if (found == upstreams_.end()) return;
  const std::chrono::milliseconds said = std::chrono::seconds(std::min(seconds, 3600u));
  if (said >= found->second.keep_alive) return;  // only ever shorter than what was set
  found->second.keep_alive = said;
  found->second.upstream->set_idle_max(reuse_time(said));
}

}  // namespace sluice::proxy
