#include "serving_view.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serving_show.h"

namespace sluice::cli {
namespace {

metrics::Reading page(const std::string& text) {
  auto reading = metrics::Reading::parse(text);
  EXPECT_TRUE(reading.has_value()) << reading.error().message;
  return reading ? std::move(*reading) : metrics::Reading();
}

constexpr const char* kEngine = "http://127.0.0.1:8001";

ServingPlace one_proxy() {
  return {.proxy = "http://127.0.0.1:8000", .token = "", .token_problem = "", .engines = {}};
}

ListedInstance decode_engine() {
  return {.id = 1,
          .role = "decode",
          .address = kEngine,
          .healthy = true,
          .answered = true,
          .running = 2};
}

std::string proxy_page(int requests, int fast, int slow) {
  const auto number = [](int n) { return std::to_string(n) + "\n"; };
  return "sluice_proxy_ready 1\n"
         "sluice_proxy_instances{role=\"decode\"} 2\n"
         "sluice_proxy_instances_healthy{role=\"decode\"} 1\n"
         "sluice_proxy_stage_running{role=\"decode\"} 3\n"
         "sluice_proxy_stage_waiting{role=\"decode\"} 4\n"
         "sluice_proxy_stage_requests_total{role=\"decode\"} " +
         number(requests) + "sluice_proxy_stage_service_seconds_bucket{role=\"decode\",le=\"1\"} " +
         number(fast) + "sluice_proxy_stage_service_seconds_bucket{role=\"decode\",le=\"2\"} " +
         number(fast + slow) +
         "sluice_proxy_stage_service_seconds_bucket{role=\"decode\",le=\"+Inf\"} " +
         number(fast + slow) +
         "sluice_proxy_fallbacks_total{cause=\"no_handoff\"} 5\n"
         "sluice_proxy_fallbacks_total{cause=\"encode_failed\"} 6\n"
         "sluice_proxy_fallbacks_total{cause=\"prefill_empty\"} 0\n"
         "sluice_proxy_refusals_total{cause=\"queue_full\"} 7\n";
}

TEST(ServingView, OneLookHasTotalsAndQuantilesButNoRates) {
  ServingSample sample;
  sample.time = 1;
  sample.proxy = page(proxy_page(10, 10, 0));
  sample.listed = std::vector<ListedInstance>{};
  const ServingView view = view_of(one_proxy(), sample, nullptr);
  EXPECT_FALSE(view.seconds.has_value());
  ASSERT_EQ(view.stages.size(), 1u);
  const ServerView& decode = view.stages[0].stage;
  EXPECT_EQ(decode.role, "decode");
  EXPECT_EQ(decode.instances, 2u);
  EXPECT_EQ(decode.usable, 1u);
  EXPECT_EQ(decode.running, 3);
  EXPECT_EQ(decode.waiting, 4);
  EXPECT_EQ(decode.served.total, 10);
  EXPECT_FALSE(decode.served.per_s.has_value());
  EXPECT_DOUBLE_EQ(*decode.service.p50, 0.5);
  EXPECT_FALSE(decode.queue.p50.has_value());
}

TEST(ServingView, TwoLooksAreComparedOverTheTimeBetweenThem) {
  ServingSample before, after;
  before.time = 1'000'000'000;
  before.proxy = page(proxy_page(10, 10, 0));
  after.time = 3'000'000'000;
  after.proxy = page(proxy_page(14, 10, 4));
  const ServingView view = view_of(one_proxy(), after, &before);
  EXPECT_DOUBLE_EQ(*view.seconds, 2);
  EXPECT_DOUBLE_EQ(*view.stages[0].stage.served.per_s, 2);
  // The four of the meantime took between one and two seconds; the ten before do not count.
  EXPECT_DOUBLE_EQ(*view.stages[0].stage.service.p50, 1.5);
}

TEST(ServingView, AProxyThatBeganAnewCountsFromZero) {
  ServingSample before, after;
  before.time = 0;
  before.proxy = page(proxy_page(100, 100, 0));
  after.time = 2'000'000'000;
  after.proxy = page(proxy_page(4, 4, 0));
  const ServingView view = view_of(one_proxy(), after, &before);
  EXPECT_DOUBLE_EQ(*view.stages[0].stage.served.per_s, 2);
}

TEST(ServingView, CausesAreToldApartByWhatTheyCost) {
  ServingSample sample;
  sample.proxy = page(proxy_page(1, 1, 0));
  const ServingView view = view_of(one_proxy(), sample, nullptr);
  EXPECT_EQ(view.handoffs.fallbacks, (Causes{{"no_handoff", 5}}));
  EXPECT_EQ(view.features.fallbacks, (Causes{{"encode_failed", 6}}));
  EXPECT_EQ(view.endpoint.refusals, (Causes{{"queue_full", 7}}));
}

TEST(ServingView, AnEngineStandsUnderItsStageWithItsOwnNumbers) {
  ServingSample sample;
  sample.proxy = page(proxy_page(1, 1, 0));
  sample.listed = std::vector{decode_engine()};
  sample.engines.emplace(
      kEngine, page("vllm:num_requests_running{engine=\"0\"} 1\n"
                    "vllm:num_requests_waiting{engine=\"0\"} 9\n"
                    "vllm:num_preemptions_total{engine=\"0\"} 2\n"
                    "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 5\n"
                    "vllm:request_success_total{engine=\"0\",finished_reason=\"error\"} 1\n"
                    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} 6\n"
                    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 6\n"
                    "sluice_ec_hits_total{engine=\"0\"} 11\n"
                    "sluice_ec_fallback_deadline_total{engine=\"0\"} 3\n"
                    "sluice_kv_bytes_received_total{engine=\"0\"} 1e6\n"
                    "sluice_kv_failed_deadline_total{engine=\"0\"} 4\n"
                    "sluice_kv_failed_corrupt_total{engine=\"0\"} 0\n"));
  const ServingView view = view_of(one_proxy(), sample, nullptr);
  ASSERT_EQ(view.stages.size(), 1u);
  ASSERT_EQ(view.stages[0].engines.size(), 1u);
  const ServerView& engine = view.stages[0].engines[0];
  EXPECT_EQ(engine.address, kEngine);
  EXPECT_TRUE(engine.trouble.empty());
  EXPECT_EQ(engine.healthy, true);
  EXPECT_EQ(engine.running, 1);
  EXPECT_EQ(engine.waiting, 9);
  EXPECT_EQ(engine.served.total, 6);
  EXPECT_EQ(engine.errors, 1);
  EXPECT_EQ(engine.preemptions, 2);
  EXPECT_DOUBLE_EQ(*engine.first_token.p50, 0.05);
  EXPECT_DOUBLE_EQ(*view.stages[0].stage.first_token.p50, 0.05);
  EXPECT_EQ(view.features.hits.total, 11);
  EXPECT_EQ(view.handoffs.received_bytes.total, 1e6);
  EXPECT_EQ(view.features.fallbacks, (Causes{{"encode_failed", 6}, {"deadline", 3}}));
  EXPECT_EQ(view.handoffs.fallbacks, (Causes{{"no_handoff", 5}, {"deadline", 4}}));
}

TEST(ServingView, WhatIsAwayIsNamedInItsPlaceAndTheRestIsThere) {
  ServingSample sample;
  sample.proxy = fail(Code::kUnavailable, "nothing listens there");
  sample.listed = fail(Code::kUnavailable, "nothing listens there");
  sample.engines.emplace(kEngine, page("vllm:num_requests_running 1\n"));
  sample.engines.emplace("http://127.0.0.1:8002", fail(Code::kTimedOut, "too late"));
  ServingPlace place = one_proxy();
  place.engines = {{"d1", "decode", kEngine}, {"d2", "decode", "http://127.0.0.1:8002"}};
  const ServingView view = view_of(place, sample, nullptr);
  EXPECT_EQ(view.endpoint.trouble, "nothing listens there");
  ASSERT_EQ(view.stages.size(), 1u);
  ASSERT_EQ(view.stages[0].engines.size(), 2u);
  EXPECT_EQ(view.stages[0].engines[0].name, "d1");
  EXPECT_EQ(view.stages[0].engines[0].running, 1);
  EXPECT_FALSE(view.stages[0].engines[0].healthy.has_value());
  EXPECT_EQ(view.stages[0].engines[1].trouble, "too late");
}

TEST(ServingView, AnEngineThatFileAndProxyBothNameIsOne) {
  ServingSample sample;
  sample.listed = std::vector{decode_engine()};
  ServingPlace place = one_proxy();
  place.engines = {{"decode-1", "decode", kEngine}};
  const ServingView view = view_of(place, sample, nullptr);
  ASSERT_EQ(view.stages.size(), 1u);
  ASSERT_EQ(view.stages[0].engines.size(), 1u);
  EXPECT_EQ(view.stages[0].engines[0].name, "decode-1");
  EXPECT_EQ(view.stages[0].engines[0].healthy, true);
}

TEST(ServingView, OpenHandoffsAreCountedByTheirNames) {
  const auto object = [](const std::string& kind, const std::string& id) {
    ObjectInfo info;
    info.key = "sluice1@tenant:t@kind:" + kind + "@model:kv@revision:1@encoder:none@dtype:uint8" +
               "@layout:replicated@id:" + id;
    return info;
  };
  EXPECT_EQ(open_handoffs({}), 0u);
  EXPECT_EQ(open_handoffs({object("kv_handoff", "aa.0.0.0"), object("kv_handoff", "aa.0.0.end"),
                           object("kv_handoff", "bb.1.0.0"), object("encoder_output", "cc")}),
            2u);
}

TEST(ServingSample, AListOfInstancesIsReadCarefully) {
  const auto listed = read_instances(
      R"({"instances":[{"id":1,"role":"decode","url":"http://h:1","arena":null,"healthy":true,
          "answered":true,"running":4,"service_ms":1.5},{"role":"x"},7,
          {"role":"decode","url":"http://h:2","running":-1,"healthy":"yes","id":1.5}]})");
  ASSERT_TRUE(listed.has_value());
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ((*listed)[0].running, 4u);
  EXPECT_TRUE((*listed)[0].healthy);
  EXPECT_TRUE((*listed)[0].answered);
  EXPECT_EQ((*listed)[1].running, 0u);
  EXPECT_FALSE((*listed)[1].healthy);
  EXPECT_FALSE((*listed)[1].answered);
  for (const char* text : {"", "[]", "{}", "{\"instances\":{}}", "{\"instances\":[", "null"})
    EXPECT_FALSE(read_instances(text).has_value()) << text;
}

std::string shown(const Look& look, const ServingView& view) {
  ::testing::internal::CaptureStdout();
  print(Output(look), view);
  return ::testing::internal::GetCapturedStdout();
}

TEST(ServingText, WhatAHistogramDoesNotTellApartIsNotShownAsANumber) {
  ServingSample sample;
  sample.proxy = page(proxy_page(10, 10, 0));
  const std::string text = shown({.columns = 200}, view_of(one_proxy(), sample, nullptr));
  EXPECT_NE(text.find("<1.00s <1.00s"), std::string::npos) << text;
}

TEST(ServingText, AnEngineInUseThatNeverAnsweredIsNotCalledHealthy) {
  ServingSample sample;
  sample.proxy = page(proxy_page(10, 10, 0));
  ListedInstance silent = decode_engine();
  silent.answered = false;
  sample.listed = std::vector{silent};
  const std::string text = shown({.columns = 200}, view_of(one_proxy(), sample, nullptr));
  EXPECT_NE(text.find("no answer"), std::string::npos) << text;
  EXPECT_EQ(text.find("healthy"), std::string::npos) << text;
}

TEST(ServingText, ANarrowTerminalLosesColumnsAndNoLineIsTooLong) {
  ServingSample sample;
  sample.proxy = page(proxy_page(123456, 100, 100));
  sample.listed = std::vector{decode_engine()};
  sample.engines.emplace(kEngine, fail(Code::kTimedOut, "too late\x1b[2J"));
  const ServingView view = view_of(one_proxy(), sample, nullptr);
  const std::string wide = shown({.terminal = true, .columns = 200}, view);
  EXPECT_NE(wide.find("PREEMPTED"), std::string::npos);
  const std::string narrow = shown({.terminal = true, .columns = 60}, view);
  EXPECT_EQ(narrow.find("PREEMPTED"), std::string::npos);
  EXPECT_NE(narrow.find("SERVICE"), std::string::npos);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = narrow.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 60u) << narrow.substr(begin, end - begin);
  EXPECT_EQ(narrow.find('\x1b'), std::string::npos) << "text from elsewhere drives the terminal";
  // A pipe has no width.
  EXPECT_NE(shown({.terminal = false, .columns = 60}, view).find("PREEMPTED"), std::string::npos);
}

TEST(ServingJson, WhatNobodyMeasuredIsNull) {
  ServingSample sample;
  sample.proxy = page(proxy_page(10, 10, 0));
  const auto json = to_json(view_of(one_proxy(), sample, nullptr));
  EXPECT_TRUE(json["seconds"].is_null());
  EXPECT_TRUE(json["stages"][0]["queue_s"]["p50"].is_null());
  EXPECT_TRUE(json["stages"][0]["requests"]["per_s"].is_null());
  EXPECT_EQ(json["stages"][0]["requests"]["total"], 10);
  EXPECT_EQ(json["stages"][0]["service_s"]["p50"], 0.5);
  EXPECT_TRUE(json["handoffs"]["open"].is_null());
}

}  // namespace
}  // namespace sluice::cli
