#include "proxy/answer_facts.h"

#include <gtest/gtest.h>

namespace sluice::proxy {
namespace {

TEST(AnswerFacts, TheFirstByteIsContentAToolCallOrAFinishReason) {
  AnswerReader reader;
  const auto chunk = [&](std::string choice) {
    return reader.kind_of(R"({"id":"x","choices":[{"index":0,)" + choice + "}]}");
  };
  EXPECT_EQ(chunk(R"("delta":{"role":"assistant","content":""},"finish_reason":null)"),
            EventKind::kNone);
  EXPECT_EQ(chunk(R"("delta":{"role":"assistant"},"finish_reason":null)"), EventKind::kNone);
  EXPECT_EQ(chunk(R"("delta":{"content":"a"})"), EventKind::kContent);
  EXPECT_EQ(chunk(R"("delta":{"reasoning_content":"a"})"), EventKind::kContent);
  EXPECT_EQ(chunk(R"("delta":{"tool_calls":[{"index":0}]})"), EventKind::kContent);
  EXPECT_EQ(chunk(R"("delta":{},"finish_reason":"stop")"), EventKind::kContent);
  EXPECT_EQ(chunk(R"("text":"a","finish_reason":null)"), EventKind::kContent);
  EXPECT_EQ(chunk(R"("text":"","finish_reason":null)"), EventKind::kNone);
  EXPECT_EQ(reader.kind_of(R"({"choices":[],"usage":{"total_tokens":3}})"), EventKind::kNone);
  EXPECT_EQ(reader.kind_of(
                R"({"choices":[{"delta":{"content":""}},{"delta":{"content":"b"},"index":1}]})"),
            EventKind::kContent);
}

TEST(AnswerFacts, EndsErrorsAndWhatIsNotJsonAreTold) {
  AnswerReader reader;
  EXPECT_EQ(reader.kind_of("[DONE]"), EventKind::kDone);
  EXPECT_EQ(reader.kind_of(R"({"error":{"message":"m"}})"), EventKind::kError);
  EXPECT_EQ(reader.kind_of(R"({"error":null,"choices":[]})"), EventKind::kNone);
  EXPECT_EQ(reader.kind_of(""), EventKind::kNone);
  EXPECT_EQ(reader.kind_of("{\"choices\":[{"), EventKind::kNone);
  EXPECT_EQ(reader.kind_of("[]"), EventKind::kNone);
  EXPECT_TRUE(looks_like_error(R"({"error":{}})"));
  EXPECT_TRUE(looks_like_error(R"({ "error": {}})"));
  EXPECT_FALSE(looks_like_error(R"({"choices":[{"delta":{"content":"{\"error\""}}]})"));
  EXPECT_FALSE(looks_like_error("[DONE]"));
}

TEST(AnswerFacts, AnEncodersAnswerNamesItsItem) {
  AnswerReader reader;
  const auto item = reader.encoded_item(
      R"({"choices":[],"ec_transfer_params":{"id-1":{"state":"published","item_indices":[0],"metadata":{"image_grid_thw":[1,24,32]}}}})");
  ASSERT_TRUE(item);
  EXPECT_EQ(item->identifier, "id-1");
  EXPECT_EQ(item->state, "published");
  EXPECT_EQ(item->metadata, R"({"image_grid_thw":[1,24,32]})");
  EXPECT_TRUE(item->entry.starts_with(R"({"state":"published")"));
  const auto absent = reader.encoded_item(
      R"({"ec_transfer_params":{"id-1":{"state":"absent","item_indices":[0]}}})");
  ASSERT_TRUE(absent);
  EXPECT_EQ(absent->metadata, "");
  EXPECT_FALSE(reader.encoded_item(R"({"choices":[]})"));
  EXPECT_FALSE(reader.encoded_item(R"({"ec_transfer_params":{}})"));
  EXPECT_FALSE(reader.encoded_item(R"({"ec_transfer_params":{"a":7}})"));
  EXPECT_FALSE(reader.encoded_item("nothing"));
}

TEST(AnswerFacts, AHandoffIsCommittedOrHasAReason) {
  AnswerReader reader;
  const auto committed = reader.handoff(
      R"({"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"sluice_handoff":"ab","tokens":8}})");
  ASSERT_TRUE(committed);
  EXPECT_TRUE(committed->committed);
  EXPECT_TRUE(committed->params.ends_with(R"("tokens":8})"));
  const auto none =
      reader.handoff(R"({"kv_transfer_params":{"do_remote_prefill":false,"reason":"no space"}})");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->committed);
  EXPECT_EQ(none->reason, "no space");
  EXPECT_FALSE(reader.handoff(R"({"kv_transfer_params":null})"));
  EXPECT_FALSE(reader.handoff("{}"));
}

TEST(AnswerFacts, BrokenParametersReadAsNone) {
  AnswerReader reader;
  const auto broken = reader.handoff(
      R"({"kv_transfer_params":{"a":{"do_remote_prefill":true,"sluice_handoff":":{"do]x[]})");
  EXPECT_FALSE(broken && broken->committed);
  EXPECT_EQ(reader.kind_of(R"({"choices":[{"delta":{"a":]},{"delta":{"content":"x"}}]})"),
            EventKind::kNone);
}

TEST(AnswerFacts, AnErrorsMessageIsFound) {
  AnswerReader reader;
  EXPECT_EQ(reader.error_message(R"({"error":{"message":"no \"feature\"","code":500}})"),
            "no \"feature\"");
  EXPECT_EQ(reader.error_message(R"({"error":"text"})"), "");
  EXPECT_EQ(reader.error_message(""), "");
}

}  // namespace
}  // namespace sluice::proxy
