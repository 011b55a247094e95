#include "http/link_pool.h"

#include <algorithm>
#include <charconv>

#include "http/framing.h"

namespace sluice::http {

std::unique_ptr<Link> LinkPool::make() {
  return std::make_unique<Link>(io_, watchdog_, options_.read_buffer_bytes);
}

std::chrono::milliseconds LinkPool::idle_max() const noexcept {
  return std::min(options_.idle_max, learned_);
}

std::unique_ptr<Link> LinkPool::take() noexcept {
  const auto now = Clock::now();
  while (!idle_.empty()) {
    Idle last = std::move(idle_.back());
    idle_.pop_back();
    if (now - last.since < idle_max() && last.link->wake()) return std::move(last.link);
  }
  return nullptr;
}

void LinkPool::put(std::unique_ptr<Link> link) {
  const auto wait = idle_max();
  if (closed_ || wait <= wait.zero() || options_.idle_connections_max == 0) return;
  if (idle_.size() >= options_.idle_connections_max) idle_.erase(idle_.begin());
  Link* const key = link.get();
  idle_.push_back({.link = std::move(link), .since = Clock::now()});
  key->rest(wait, [this, key] {
    std::erase_if(idle_, [key](const Idle& idle) { return idle.link.get() == key; });
  });
}

void LinkPool::learn(std::string_view keep_alive) {
  constexpr std::string_view kTimeout = "timeout=";
  while (!keep_alive.empty()) {
    const std::size_t comma = keep_alive.find(',');
    std::string_view option = keep_alive.substr(0, comma);
    keep_alive =
        comma == std::string_view::npos ? std::string_view() : keep_alive.substr(comma + 1);
    while (option.starts_with(' ')) option.remove_prefix(1);
    if (!equal_ignoring_case(option.substr(0, kTimeout.size()), kTimeout)) continue;
    option.remove_prefix(kTimeout.size());
    std::uint32_t seconds = 0;
    const auto [end, error] =
        std::from_chars(option.data(), option.data() + option.size(), seconds);
    if (option.empty() || error != std::errc()) continue;
    // Strictly below, with room for the way there.
    learned_ = std::chrono::milliseconds(std::uint64_t{seconds} * 750);
  }
}

void LinkPool::close() noexcept {
  closed_ = true;
  idle_.clear();
}

}  // namespace sluice::http
