#include "proxy/feature_directory.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include <sluice/object_key.h>

#include "kv/handoff_key.h"

namespace sluice::proxy {
namespace {

constexpr std::size_t kPrefixesKept = 256;
constexpr std::size_t kEndingMax = 65'536;
constexpr std::chrono::milliseconds kEndTimeout{2'000};
// When a hand-off is ended again whose writer had not answered.
constexpr std::array<std::chrono::seconds, 2> kEndAgain{std::chrono::seconds(2),
                                                        std::chrono::seconds(30)};

// The prefix that an engine's record names; nothing for other boards.
std::optional<std::string> prefix_of(const std::string& board) {
  const auto json = nlohmann::json::parse(board, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto record = json.find("record");
  if (record == json.end() || !record->is_object()) return std::nullopt;
  const auto prefix = record->find("prefix");
  if (prefix == record->end() || !prefix->is_string()) return std::nullopt;
  return prefix->get<std::string>();
}

// Attributes that size the placeholder, as the engine's own metadata. Texts hold JSON.
std::string metadata_of(const Attributes& attributes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Attribute& attribute : attributes) {
    if (attribute.name == "modality" || attribute.name == "rows") continue;
    if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
      out[attribute.name] = *whole;
    } else if (const auto* real = std::get_if<std::vector<double>>(&attribute.value)) {
      out[attribute.name] = *real;
    } else {
      auto value =
          nlohmann::ordered_json::parse(std::get<std::string>(attribute.value), nullptr, false);
      if (value.is_discarded()) return {};
      out[attribute.name] = std::move(value);
    }
  }
  return out.empty() ? std::string() : out.dump();
}

}  // namespace

bool same_model(std::string_view wanted, std::string_view known) noexcept {
  const auto last = [](std::string_view name) {
    const std::size_t slash = name.rfind('/');
    return slash == std::string_view::npos ? name : name.substr(slash + 1);
  };
  return wanted == known || last(wanted) == last(known);
}

FeatureDirectory::FeatureDirectory(FeatureDirectoryOptions options)
    : options_(std::move(options)), view_(std::make_shared<const View>()) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

FeatureDirectory::~FeatureDirectory() {
  thread_.request_stop();
  wake_.notify_all();
}

std::shared_ptr<const FeatureDirectory::View> FeatureDirectory::current_view() const {
  const std::scoped_lock lock(view_mutex_);
  return view_;
}

std::optional<FoundFeature> FeatureDirectory::find(std::string_view model,
                                                   std::string_view identifier) const {
  const std::shared_ptr<const View> view = current_view();
  if (view->client == nullptr) return std::nullopt;
  const bool one_model = std::ranges::all_of(view->prefixes, [&](const Prefix& prefix) {
    return prefix.model == view->prefixes.front().model;
  });
  for (const Prefix& prefix : view->prefixes) {
    if (!one_model && !same_model(model, prefix.model)) continue;
    const auto key = prefix.sample.with_id(identifier);
    if (!key) continue;
    auto lease = view->client->acquire(*key);
    if (!lease) continue;
    const auto attributes = lease->attributes();
    if (!attributes) continue;
    return FoundFeature{std::move(*lease), metadata_of(*attributes)};
  }
  return std::nullopt;
}

bool FeatureDirectory::handoff_has_begun(std::string_view handoff) const {
  const std::shared_ptr<const View> view = current_view();
  if (view->client == nullptr) return false;
  const auto keys = kv::HandoffKeys::make(options_.tenant, handoff);
  return keys && view->client->lookup(keys->part({})) == Presence::kPresent;
}

void FeatureDirectory::end_handoff(std::string handoff, bool written) {
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t turn = 0; !written && turn < again_.size(); ++turn) {
      if (again_[turn].size() == kEndingMax) {
        ++counts_.end_dropped;
        continue;
      }
      again_[turn].push_back({handoff, std::chrono::steady_clock::now() + kEndAgain[turn]});
    }
    if (ending_.size() == kEndingMax) {
      ++counts_.end_dropped;
      return;
    }
    ending_.push_back(std::move(handoff));
  }
  wake_.notify_one();
}

FeatureDirectory::Counts FeatureDirectory::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

void FeatureDirectory::run(const std::stop_token& stop) {
  auto next_refresh = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    if (std::chrono::steady_clock::now() >= next_refresh) {
      refresh();
      next_refresh = std::chrono::steady_clock::now() + options_.refresh;
    }
    take_due();
    end_waiting();
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, stop, next_refresh, [&] { return !ending_.empty(); });
  }
  end_waiting();
}

void FeatureDirectory::take_due() {
  const auto now = std::chrono::steady_clock::now();
  const std::scoped_lock lock(mutex_);
  for (std::deque<Ending>& later : again_) {
    for (; !later.empty() && later.front().due <= now; later.pop_front()) {
      ending_.push_back(std::move(later.front().handoff));
    }
  }
}

void FeatureDirectory::refresh() {
  if (client_ == nullptr) {
    auto attached = Client::attach({.arena = options_.arena,
                                    .directory = options_.directory,
                                    .label = "sluice-proxy",
                                    .attach_timeout = std::chrono::milliseconds(500),
                                    .grant_ahead_bytes = 0,
                                    .populate_bytes_max = 0});
    const std::scoped_lock lock(mutex_);
    if (!attached) {
      ++counts_.attach_failures;
      return;
    }
    ++counts_.attaches;
    client_ = std::move(*attached);
  } else if (!client_->attached()) {
    // The daemon is down, or another one serves the folder: follow it. Reading goes on meanwhile.
    const std::uint64_t boot = client_->boot();
    const auto again = client_->reattach(std::chrono::milliseconds(500));
    const std::scoped_lock lock(mutex_);
    counts_.attach_failures += again ? 0 : 1;
    counts_.attaches += again && client_->boot() != boot ? 1 : 0;
  }
  auto view = std::make_shared<View>();
  view->client = client_;
  std::vector<std::string> seen;
  for (const ClientInfo& info : client_->clients()) {
    auto prefix = prefix_of(info.board);
    if (!prefix || seen.size() == kPrefixesKept || std::ranges::find(seen, *prefix) != seen.end()) {
      continue;
    }
    const auto sample = ObjectKey::parse(*prefix + "@id:x");
    if (!sample || sample->fields().tenant != options_.tenant) continue;
    view->prefixes.push_back({*sample, sample->fields().model});
    seen.push_back(std::move(*prefix));
  }
  const std::size_t prefixes = view->prefixes.size();
  std::shared_ptr<const View> made = std::move(view);
  {
    const std::scoped_lock lock(view_mutex_);
    view_.swap(made);
  }
  const std::scoped_lock lock(mutex_);
  counts_.prefixes = prefixes;
  counts_.attached = client_->attached();
}

void FeatureDirectory::end_waiting() {
  while (true) {
    std::string handoff;
    {
      const std::scoped_lock lock(mutex_);
      if (ending_.empty()) return;
      handoff = std::move(ending_.front());
      ending_.pop_front();
      if (client_ == nullptr) {
        ++counts_.end_failures;
        continue;
      }
    }
    const auto keys = kv::HandoffKeys::make(options_.tenant, handoff);
    const auto removed =
        keys ? client_->invalidate(keys->prefix(), kEndTimeout) : std::unexpected(keys.error());
    const std::scoped_lock lock(mutex_);
    ++(removed ? counts_.ended : counts_.end_failures);
    counts_.objects_removed += removed.value_or(0);
  }
}

}  // namespace sluice::proxy
