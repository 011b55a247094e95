#include "store/scrub.h"

#include "base/clock.h"

namespace sluice::store {

ScrubResult scrub(
    Client& client, const std::stop_token& stop,
    const std::function<void(std::string_view key, std::string_view reason)>& damaged) {
  ScrubResult result;
  for (const ObjectInfo& object : client.list("")) {
    if (stop.stop_requested()) break;
    const auto key = ObjectKey::parse(object.key);
    if (!key) continue;
    const Instant start = now();
    auto lease = client.acquire(*key);
    if (!lease) continue;
    const Status whole = lease->verify(Verify::kAlways);
    ++result.checked;
    if (!whole && whole.error().code == Code::kCorrupt) {
      lease->release();
      damaged(object.key, whole.error().message);
      if (client.remove(*key)) ++result.removed;
    }
    const Instant end = now();
    sleep_until(end + (end - start));  // as long as it took: engines want the memory bus too
  }
  return result;
}

}  // namespace sluice::store
