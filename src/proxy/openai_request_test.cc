#include "proxy/openai_request.h"

#include <string>

#include <gtest/gtest.h>

#include "proxy/splice.h"

namespace sluice::proxy {
namespace {

struct Scanned {
  std::string text;
  Scanner scanner;
  Outcome<ScannedRequest> result;

  explicit Scanned(std::string body, const ScanRules& rules = {}) : text(std::move(body)) {
    const std::size_t size = text.size();
    text.append(kScanPadding, '\0');
    result = scanner.scan(std::string_view(text).substr(0, size), rules);
  }
  std::string_view body() const {
    return std::string_view(text).substr(0, text.size() - kScanPadding);
  }
  std::string param() const { return result ? "accepted" : result.error().param; }
};

std::string chat(std::string_view content, std::string_view more = "") {
  return R"({"model":"m")" + std::string(more) + R"(,"messages":[{"role":"user","content":)" +
         std::string(content) + "}]}";
}

constexpr std::string_view kImage =
    R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}})";

TEST(OpenAiRequest, FieldsAreFoundWithTheirSpans) {
  const Scanned scanned(
      R"(  { "model" : "m" , "stream" : true,"n":2 , "messages":[] ,"seed": 7 } )");
  ASSERT_TRUE(scanned.result) << scanned.result.error().message;
  const ScannedRequest& request = *scanned.result;
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.n, 2u);
  ASSERT_EQ(request.fields.size(), 5u);
  EXPECT_EQ(request.field("stream")->slot.of(request.body), R"("stream" : true)");
  EXPECT_EQ(request.field("messages")->slot.of(request.body), R"("messages":[])");
  EXPECT_EQ(request.text_of("seed"), "7");
  EXPECT_EQ(request.object.of(request.body).front(), '{');
  EXPECT_EQ(request.object.of(request.body).back(), '}');
}

TEST(OpenAiRequest, MediaPartsAreFoundAnywhereInMessages) {
  const Scanned scanned(
      R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":[)"
      R"({"type":"text","text":"what is {\"image_url\"}?"} , )" +
      std::string(kImage) +
      R"( ,{"type":"input_audio","input_audio":{"format":"wav","data":"UklG"},"uuid":"mine"}]},)"
      R"({"content":[{"video_url":{"url":"https://host/v.mp4"},"type":"video_url"}],"role":"user"}],"model":"m"})");
  ASSERT_TRUE(scanned.result) << scanned.result.error().message;
  const auto& media = scanned.result->media;
  ASSERT_EQ(media.size(), 3u);
  EXPECT_EQ(media[0].part.of(scanned.body()), kImage);
  EXPECT_EQ(media[0].data.of(scanned.body()), R"("data:image/png;base64,AAAA")");
  EXPECT_FALSE(media[0].remote);
  EXPECT_EQ(media[1].type, "input_audio");
  EXPECT_EQ(media[1].data.of(scanned.body()), R"("UklG")");
  EXPECT_EQ(media[1].uuid.of(scanned.body()), R"("uuid":"mine")");
  EXPECT_EQ(media[1].uuid_value.of(scanned.body()), R"("mine")");
  EXPECT_TRUE(media[2].remote);
  EXPECT_TRUE(media[2].part.of(scanned.body()).ends_with(R"("type":"video_url"})"));
}

TEST(OpenAiRequest, WhatOnlyThisServiceSaysIsRefusedNamingTheField) {
  for (const std::string field : {"kv_transfer_params", "ec_transfer_params"}) {
    EXPECT_EQ(Scanned(R"({"model":"m",")" + field + R"(":{}})").param(), field);
    EXPECT_EQ(Scanned(R"({"model":"m",")" + field + R"(":null})").param(), field);
    EXPECT_EQ(Scanned(R"({"model":"m","vllm_xargs":{")" + field + R"(":"x"}})").param(),
              "vllm_xargs");
  }
  // Spelled with an escape it is the same name to an engine.
  EXPECT_EQ(Scanned(R"({"model":"m","kv\u005ftransfer_params":{}})").param(), "kv_transfer_params");
}

TEST(OpenAiRequest, AReferenceWithoutItsMediaIsRefused) {
  const std::string path = "messages[0].content[0].";
  EXPECT_EQ(
      Scanned(
          chat(R"([{"type":"image_embeds","image_embeds":{"image_grid_thw":[1,2,2]},"uuid":"u"}])"))
          .param(),
      path + "image_embeds");
  EXPECT_EQ(Scanned(chat(R"([{"type":"image_embeds","image_embeds":null,"uuid":"u"}])")).param(),
            path + "image_embeds");
  EXPECT_EQ(Scanned(chat(R"([{"type":"image_embeds","uuid":"u"}])")).param(),
            "messages[0].content[0]");
  EXPECT_EQ(Scanned(chat(R"([{"type":"image_url","image_url":null,"uuid":"u"}])")).param(),
            path + "image_url");
  EXPECT_EQ(Scanned(chat(R"([{"type":"image_url","image_url":{"url":null},"uuid":"u"}])")).param(),
            path + "image_url");
  EXPECT_EQ(Scanned(chat(R"([{"type":"image_url","image_url":{},"uuid":"u"}])")).param(),
            path + "image_url");
  EXPECT_EQ(Scanned(chat(R"([{"image_url":null,"uuid":"u"}])")).param(), path + "image_url");
}

TEST(OpenAiRequest, EmbeddingsWithTheirDataNeedTheSetting) {
  const std::string body = chat(R"([{"type":"image_embeds","image_embeds":"AAAA"}])");
  EXPECT_EQ(Scanned(body).param(), "messages[0].content[0].image_embeds");
  const Scanned allowed(body, {.allow_image_embeds = true});
  ASSERT_TRUE(allowed.result);
  EXPECT_EQ(allowed.result->media.size(), 1u);
  EXPECT_FALSE(allowed.result->media[0].remote);
  EXPECT_EQ(Scanned(chat(R"([{"type":"image_embeds","image_embeds":{"a":"AAAA"}}])"),
                    {.allow_image_embeds = true})
                .param(),
            "messages[0].content[0].image_embeds");
}

TEST(OpenAiRequest, APartThatTwoReadersUnderstandDifferentlyIsRefused) {
  for (const std::string part :
       {R"({"type":"text","text":"x","image_url":"data:a"})",
        R"({"type":"image_url","image_url":"data:a","image_embeds":null})",
        R"({"type":"image_url","image_url":{"url":"data:a","url":"data:b"}})",
        R"({"type":"image_url","type":"text","image_url":"data:a"})",
        R"({"type":"image_url","image_url":"data:a","uuid":"a","uuid":"b"})",
        R"({"type":"audio_embeds","audio_embeds":"AA"})", R"({"type":7,"image_url":"data:a"})",
        R"({"type":"image_url","image_url":"data:a","uuid":7})",
        R"({"type":"prompt_embeds","data":"AA"})"}) {
    EXPECT_FALSE(Scanned(chat("[" + part + "]")).result) << part;
  }
  EXPECT_EQ(Scanned(R"({"model":"m","messages":[],"messages":[]})").param(), "messages");
  EXPECT_FALSE(Scanned(R"({"model":"m","messages":[{"content":"a","content":"b"}]})").result);
}

TEST(OpenAiRequest, WrongTypesAreRefusedNamingTheField) {
  EXPECT_EQ(Scanned(R"({"model":7})").param(), "model");
  EXPECT_EQ(Scanned(R"({"messages":[]})").param(), "model");
  EXPECT_EQ(Scanned(R"({"model":"m","stream":"yes"})").param(), "stream");
  EXPECT_EQ(Scanned(R"({"model":"m","n":0})").param(), "n");
  EXPECT_EQ(Scanned(R"({"model":"m","n":-1})").param(), "n");
  EXPECT_EQ(Scanned(R"({"model":"m","n":1.5})").param(), "n");
  EXPECT_EQ(Scanned(R"({"model":"m","messages":{}})").param(), "messages");
  EXPECT_EQ(Scanned(R"({"model":"m","messages":["x"]})").param(), "messages[0]");
  EXPECT_TRUE(Scanned(R"({"model":"m","n":null,"stream":null})").result);
}

TEST(OpenAiRequest, TextThatIsNotOneJsonObjectIsRefused) {
  for (const std::string body : {"",
                                 "[]",
                                 "7",
                                 "\"a\"",
                                 "{",
                                 R"({"model":"m")",
                                 R"({"model":"m"}})",
                                 R"({"model":"m"} {})",
                                 R"({"model":"m","a":tru})",
                                 R"({"model":"m","a":nul})",
                                 R"({"model":"m","a":01})",
                                 R"({"model":"m","a":"\x"})",
                                 R"({"model":"m","a":"\ud800"})",
                                 R"({"model":"m","a":[}]})",
                                 "{\"model\":\"m\",\"a\":\"\x01\"}",
                                 R"({"model":"m","messages":[{"content":[1]}]})",
                                 R"({"model" "m"})",
                                 R"({model:"m"})",
                                 "{\"model\":\"m\xff\"}",
                                 R"({"model":"m",})"}) {
    EXPECT_FALSE(Scanned(body).result) << body;
  }
}

TEST(OpenAiRequest, NestingHasALimit) {
  const auto nested = [](int depth) {
    return R"({"model":"m","x":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(Scanned(nested(63)).result);
  EXPECT_EQ(Scanned(nested(64)).result.error().code, "too_deep");
  EXPECT_FALSE(Scanned(nested(100'000)).result);
}

TEST(OpenAiRequest, InputOfOtherRoutesIsLookedAtLikeMessages) {
  const auto with = [](std::string_view input) {
    return R"({"model":"m","input":)" + std::string(input) + "}";
  };
  EXPECT_TRUE(Scanned(with("\"text\"")).result);
  EXPECT_TRUE(Scanned(with(R"(["a","b"])")).result);
  EXPECT_TRUE(Scanned(with("[[1,2],[3]]")).result);
  const Scanned named(with(
      R"([{"role":"user","content":[{"type":"input_image","image_url":"data:x","uuid":"u"}]}])"));
  ASSERT_TRUE(named.result);
  ASSERT_EQ(named.result->media.size(), 1u);
  EXPECT_EQ(named.result->media[0].uuid_value.of(named.body()), "\"u\"");
  const Scanned tool(with(
      R"([{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:x"}]}])"));
  ASSERT_TRUE(tool.result);
  EXPECT_EQ(tool.result->media.size(), 1u);
  EXPECT_FALSE(Scanned(with(R"([{"content":[{"type":"input_image","image_url":null}]}])")).result);
}

TEST(OpenAiRequest, EscapesAndLargeNumbersThatMeanSomethingPass) {
  EXPECT_TRUE(
      Scanned(
          R"({"model":"m","a":"\ud83d\ude00\n\u00e9\"\\\/","b":123456789012345678901234567890,"c":-1.5e300})")
          .result);
}

TEST(Splice, AnUnchangedBodyIsOnePiece) {
  const Scanned scanned(chat("\"hi\""));
  const Pieces pieces = compose(*scanned.result, {});
  EXPECT_EQ(pieces.views().size(), 1u);
  EXPECT_EQ(pieces.joined(), scanned.body());
}

TEST(Splice, FieldsLeaveAndOthersComeWhereverTheyStand) {
  const Scanned scanned(R"({"a":1, "stream":true,"b":[1,2] , "n":3, "model":"m","max_tokens":9})");
  const auto body = [&](std::vector<std::string_view> drop, std::string add) {
    return compose(*scanned.result, {.drop = std::move(drop), .add = std::move(add)}).joined();
  };
  EXPECT_EQ(body({"stream", "n", "max_tokens"}, R"("max_tokens":1)"),
            R"({"a":1,"b":[1,2],"model":"m","max_tokens":1})");
  EXPECT_EQ(body({"a"}, ""), R"({"stream":true,"b":[1,2] , "n":3, "model":"m","max_tokens":9})");
  EXPECT_EQ(body({"a", "stream", "b", "n", "model", "max_tokens"}, R"("x":0)"), R"({"x":0})");
  EXPECT_EQ(body({"a", "stream", "b", "n", "model", "max_tokens"}, ""), "{}");
}

TEST(Splice, MediaIsReplacedOrNamedWithoutBeingCopied) {
  const Scanned scanned(
      chat("[" + std::string(kImage) + R"(,{"uuid":"mine","image_url":"data:x"}])"));
  ASSERT_TRUE(scanned.result);
  const auto& media = scanned.result->media;
  EXPECT_EQ(compose(*scanned.result,
                    {.edits = {{media[0].part, R"({"ref":1})"}, uuid_edit(media[1], "ours")}})
                .joined(),
            chat(R"([{"ref":1},{"uuid":"ours","image_url":"data:x"}])"));
  const Pieces named = compose(*scanned.result, {.edits = {uuid_edit(media[0], "ours")}});
  EXPECT_NE(named.joined().find(R"([{"uuid":"ours","type":"image_url")"), std::string::npos);
  EXPECT_GE(named.views().back().data(), scanned.text.data());
  EXPECT_EQ(uuid_edit(media[1], "").text, R"("uuid":null)");
  EXPECT_EQ(uuid_edit(media[0], "").text, "");
}

TEST(Splice, AnEncodeBodyHoldsOneItemAndTheArguments) {
  const Scanned scanned(
      chat("[" + std::string(kImage) + "]", R"(,"stream":true,"mm_processor_kwargs":{"a":1})"));
  EXPECT_EQ(
      encode_body(*scanned.result, scanned.result->media[0], "u").joined(),
      R"({"messages":[{"role":"user","content":[{"uuid":"u","type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"max_tokens":1,"model":"m","mm_processor_kwargs":{"a":1}})");
}

}  // namespace
}  // namespace sluice::proxy
