#include "proxy/json_cut.h"

#include <gtest/gtest.h>

namespace sluice::proxy {
namespace {

TEST(CutTransferParams, TakesTheMemberAndOneComma) {
  EXPECT_EQ(cut_transfer_params(R"({"a":1,"kv_transfer_params":{"x":[1,"}"]},"b":2})"),
            R"({"a":1,"b":2})");
  EXPECT_EQ(cut_transfer_params(R"({"kv_transfer_params":null,"b":2})"), R"({"b":2})");
  EXPECT_EQ(cut_transfer_params(R"({"b":2 , "ec_transfer_params" : {"q":"\"{"} })"), R"({"b":2 })");
  EXPECT_EQ(cut_transfer_params(R"({"ec_transfer_params":{},"kv_transfer_params":[{}]})"), "{}");
  EXPECT_EQ(cut_transfer_params(R"({"c":[{"kv_transfer_params":"x","d":1}]})"),
            R"({"c":[{"d":1}]})");
}

TEST(CutTransferParams, TextThatOnlyMentionsThemStays) {
  EXPECT_EQ(cut_transfer_params(R"({"a":"\"kv_transfer_params\":1"})"), std::nullopt);
  EXPECT_EQ(cut_transfer_params(R"({"a":["kv_transfer_params"]})"), std::nullopt);
  EXPECT_EQ(cut_transfer_params(R"({"my_kv_transfer_params":1})"), std::nullopt);
  EXPECT_EQ(cut_transfer_params("nothing"), std::nullopt);
}

TEST(CutTransferParams, WorksInsideEvents) {
  EXPECT_EQ(cut_transfer_params("data: {\"a\":1,\"kv_transfer_params\":{}}\n\ndata: [DONE]\n\n"),
            "data: {\"a\":1}\n\ndata: [DONE]\n\n");
}

TEST(CutTransferParams, TextThatIsCutShortEndsWhereItEnds) {
  for (const char* text : {R"({"kv_transfer_params")", R"({"kv_transfer_params":)",
                           R"({"kv_transfer_params":{"a)", R"({"kv_transfer_params":"\)"}) {
    const auto cut = cut_transfer_params(text);
    if (cut) {
      EXPECT_EQ(cut->find("transfer"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace sluice::proxy
