#include "proxy/encode_stage.h"

#include <algorithm>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "proxy/media_digest.h"
#include "proxy/waiting.h"

namespace sluice::proxy {
namespace {

// Items of one request with one content.
struct Group {
  std::vector<std::size_t> items;  // indices into RequestMedia::items
  std::string key;                 // of the encode in flight
  std::uint64_t waiter = 0;
  std::shared_ptr<const EncodeResult> result;
};

// What the request and the encodes that it waits for share: they end on their own, maybe after it
// left.
struct Awaited {
  explicit Awaited(const boost::asio::any_io_executor& executor) : gate(executor) {}
  Gate gate;
  std::vector<Group> groups;
  std::size_t missing = 0;
};

EncodeResult result_of(Worker& worker, StageResult<WholeAnswer> answer) {
  if (!answer) {
    return std::unexpected(EncodeFailure{answer.error().failure, std::move(answer.error().error)});
  }
  auto item = worker.reader.encoded_item(answer->body);
  if (!item || item->identifier.empty()) {
    return std::unexpected(EncodeFailure{
        sched::Failure::kBroken,
        {.status = 502, .message = "an encoder's answer names no item", .code = "engine_broken"}});
  }
  if (item->state == "absent") item->metadata.clear();
  return std::move(*item);
}

// One encode, for whoever waits for it. Its errand is its own.
boost::asio::awaitable<void> encode(Errand errand, std::shared_ptr<http::StopSource> stop,
                                    std::shared_ptr<const ReadBody> body, std::size_t part,
                                    std::string uuid, std::string key, std::uint64_t job) {
  errand.stop = stop.get();
  const ScannedRequest& request = body->scanned;
  add(errand.worker.meter.encodes);
  const StageAsk ask{.role = kEncoderRole, .target = "/v1/chat/completions"};
  const std::function<Pieces(std::uint32_t)> make = [&](std::uint32_t) {
    return encode_body(request, request.media[part], uuid);
  };
  auto answer = co_await run_whole_stage(errand, ask, make);
  errand.core.encodes.finish(key, job, result_of(errand.worker, std::move(answer)));
}

void start_encode(Errand& of, std::shared_ptr<const ReadBody> body, const MediaItem& item,
                  const Group& group, std::uint64_t job) {
  const auto stop = std::make_shared<http::StopSource>();
  Errand errand = of;
  errand.id = fmt::format("{}-e{}", of.id, item.part);
  errand.deadline = deadline_after(now(), of.core.settings.request_timeout);
  boost::asio::io_context& io = of.worker.io();
  of.core.encodes.set_cancel(group.key, job,
                             [stop, &io] { boost::asio::post(io, [stop] { stop->stop(); }); });
  boost::asio::co_spawn(
      io, encode(std::move(errand), stop, std::move(body), item.part, item.uuid, group.key, job),
      boost::asio::detached);
}

// What the arena holds already needs no encoder.
bool find_feature(Core& core, const ScannedRequest& request, RequestMedia& media, Group& group) {
  MediaItem& first = media.items[group.items.front()];
  if (core.features == nullptr || first.uuid.empty()) return false;
  auto learned = core.learned.find(first.uuid, media.arguments, request.model);
  if (!learned && !media.arguments.empty()) return false;
  const std::string identifier = learned ? learned->identifier : first.uuid;
  auto found = core.features->find(request.model, identifier);
  if (!found) return false;
  const std::string metadata = learned ? learned->metadata : found->metadata;
  if (metadata.empty()) return false;
  for (const std::size_t index : group.items) {
    MediaItem& item = media.items[index];
    item.identifier = identifier;
    item.metadata = metadata;
    item.entry = fmt::format(R"({{"state":"published","item_indices":[{}],"metadata":{}}})", index,
                             metadata);
  }
  media.leases.push_back(std::move(found->lease));
  return true;
}

std::vector<Group> group_items(const ScannedRequest& request, const RequestMedia& media) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < media.items.size(); ++i) {
    const MediaItem& item = media.items[i];
    // Embeddings that came with the request are what an encoder would make.
    if (request.media[item.part].type == "image_embeds") continue;
    // A remote URL's bytes may differ from one look to the next: never shared.
    std::string key = item.uuid.empty()
                          ? random_name()
                          : fmt::format("{}/{}/{}", item.uuid, media.arguments, request.model);
    const auto known = std::ranges::find(groups, key, &Group::key);
    if (known != groups.end()) {
      known->items.push_back(i);
    } else {
      groups.push_back({.items = {i}, .key = std::move(key)});
    }
  }
  return groups;
}

void join(Errand& errand, const std::shared_ptr<const ReadBody>& body, RequestMedia& media,
          const std::shared_ptr<Awaited>& awaited, const boost::asio::any_io_executor& executor,
          std::size_t index) {
  Group& group = awaited->groups[index];
  ++awaited->missing;
  const EncodeTable::Place place = errand.core.encodes.join(
      group.key, [awaited, executor, index](std::shared_ptr<const EncodeResult> result) {
        boost::asio::post(executor, [awaited, index, result = std::move(result)] {
          awaited->groups[index].result = result;
          if (--awaited->missing == 0) awaited->gate.open();
        });
      });
  group.waiter = place.number;
  if (place.first) {
    start_encode(errand, body, media.items[group.items.front()], group, place.job);
  } else {
    add(errand.worker.meter.encodes_coalesced);
  }
}

void take_result(Errand& errand, const ScannedRequest& request, RequestMedia& media, Group& group) {
  const EncodedItem& encoded = **group.result;
  const std::string& uuid = media.items[group.items.front()].uuid;
  for (const std::size_t index : group.items) {
    MediaItem& item = media.items[index];
    item.identifier = encoded.identifier;
    item.metadata = encoded.metadata;
    item.entry = encoded.entry;
  }
  if (encoded.metadata.empty()) {
    errand.worker.meter.fell_back(Fallback::kFeatureAbsent);
    return;
  }
  if (uuid.empty()) return;
  errand.core.learned.learn(uuid, media.arguments, request.model,
                            {encoded.identifier, encoded.metadata});
  if (errand.core.features == nullptr) return;
  if (auto found = errand.core.features->find(request.model, encoded.identifier)) {
    media.leases.push_back(std::move(found->lease));
  }
}

StageFailure absent() {
  return {.failure = sched::Failure::kEngine,
          .error = {.status = 502,
                    .message = "an encoder did not bring its feature into the arena",
                    .code = "feature_absent"}};
}

StageFailure stage_failure(const EncodeFailure& failure) {
  return {.failure = failure.failure, .error = failure.error};
}

}  // namespace

boost::asio::awaitable<StageResult<EncodeTimes>> encode_media(Errand& errand,
                                                              std::shared_ptr<const ReadBody> body,
                                                              RequestMedia& media) {
  const ScannedRequest& request = body->scanned;
  Meter& meter = errand.worker.meter;
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto awaited = std::make_shared<Awaited>(executor);
  EncodeTimes times;
  add(meter.media_items, media.items.size());

  const Instant began = now();
  std::vector<Group> groups = group_items(request, media);
  for (Group& group : groups) {
    add(meter.encodes_coalesced, group.items.size() - 1);
    if (find_feature(errand.core, request, media, group)) {
      add(meter.encodes_skipped);
    } else {
      awaited->groups.push_back(std::move(group));
    }
  }
  times.feature_ns = now() - began;
  if (awaited->groups.empty()) co_return times;

  const bool strict = errand.core.settings.on_failure == OnFailure::kFail;
  if (!errand.core.director.usable(kEncoderRole)) {
    if (errand.core.settings.when_encoder_empty == WhenEncoderEmpty::kRefuse || strict) {
      co_return std::unexpected(
          StageFailure{.failure = sched::Failure::kBusy,
                       .error = {.status = 503,
                                 .message = "no encoder engine is healthy now",
                                 .code = "unhealthy",
                                 .retry_after_s = 1},
                       .refused = true});
    }
    meter.fell_back(Fallback::kEncoderEmpty);
    co_return times;
  }

  const Instant asked = now();
  for (std::size_t i = 0; i < awaited->groups.size(); ++i) {
    join(errand, body, media, awaited, executor, i);
  }
  {
    const StopScope on_stop(errand.stop, [awaited] { awaited->gate.open(); });
    co_await awaited->gate.wait(errand.deadline);
  }
  times.encode_ns = now() - asked;
  std::optional<StageFailure> failed;
  for (Group& group : awaited->groups) {
    if (group.result == nullptr) {
      errand.core.encodes.leave(group.key, group.waiter);
      failed = StageFailure{.failure = sched::Failure::kDeadline,
                            .error = {.status = 504,
                                      .message = "the request's deadline passed while its media "
                                                 "was encoded",
                                      .code = "deadline_exceeded"}};
    } else if (*group.result) {
      take_result(errand, request, media, group);
      if (strict && (*group.result)->metadata.empty()) failed = absent();
    } else if (strict) {
      failed = stage_failure(group.result->error());
    } else {
      meter.fell_back(Fallback::kEncodeFailed);
    }
  }
  if (errand.stop != nullptr && errand.stop->stopped()) {
    co_return std::unexpected(StageFailure{.failure = sched::Failure::kGone,
                                           .error = {.status = 499, .code = "client_gone"}});
  }
  if (failed) co_return std::unexpected(std::move(*failed));
  co_return times;
}

}  // namespace sluice::proxy
