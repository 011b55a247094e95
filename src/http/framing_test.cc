#include "http/framing.h"

#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "http/chunks.h"
#include "http/framing_cases.h"

namespace sluice::http {
namespace {

std::string name_of(const ::testing::TestParamInfo<FramingCase>& info) {
  return info.param.name;
}

class MalformedHeader : public ::testing::TestWithParam<FramingCase> {};

TEST_P(MalformedHeader, IsRefused) {
  RequestView view;
  const auto check = check_request(GetParam().bytes, {}, view);
  ASSERT_EQ(check.verdict, Verdict::kRefused);
  EXPECT_EQ(check.refusal.status, GetParam().status);
  EXPECT_EQ(check.refusal.code, GetParam().code) << check.refusal.what;
  EXPECT_FALSE(check.refusal.what.empty());
}

// Where the bytes are cut changes nothing: no shorter piece is taken for a whole header, and the
// verdict stays once it is there.
TEST_P(MalformedHeader, IsRefusedWhereverItIsCut) {
  const std::string& bytes = GetParam().bytes;
  RequestView view;
  bool refused = false;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto verdict = check_request(std::string_view(bytes).substr(0, size), {}, view).verdict;
    ASSERT_NE(verdict, Verdict::kComplete) << "at byte " << size;
    if (refused) {
      ASSERT_EQ(verdict, Verdict::kRefused) << "at byte " << size;
    }
    refused = verdict == Verdict::kRefused;
  }
  EXPECT_TRUE(refused);
}

INSTANTIATE_TEST_SUITE_P(Case, MalformedHeader, ::testing::ValuesIn(malformed_headers()), name_of);

struct Decoded {
  std::string data;
  std::size_t consumed = 0;
  bool done = false;
  std::string error;
};

// In pieces of at most `piece` bytes.
Decoded decode(std::string_view in, std::size_t piece) {
  ChunkDecoder decoder;
  Decoded out;
  while (out.consumed < in.size() && !decoder.done() && decoder.error().empty()) {
    const auto step = decoder.next(in.substr(out.consumed, piece));
    out.data.append(step.data);
    out.consumed += step.consumed;
  }
  out.done = decoder.done();
  out.error = decoder.error();
  return out;
}

class MalformedBody : public ::testing::TestWithParam<FramingCase> {};

TEST_P(MalformedBody, HasAGoodHeaderAndIsRefusedWhereverItIsCut) {
  RequestView view;
  const auto check = check_request(GetParam().bytes, {}, view);
  ASSERT_EQ(check.verdict, Verdict::kComplete) << check.refusal.what;
  ASSERT_EQ(view.body, BodyKind::kChunked);
  const auto body = std::string_view(GetParam().bytes).substr(check.bytes);
  const std::string error = decode(body, body.size()).error;
  EXPECT_FALSE(error.empty());
  for (std::size_t piece = 1; piece < body.size(); ++piece) {
    EXPECT_EQ(decode(body, piece).error, error) << "in pieces of " << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Case, MalformedBody, ::testing::ValuesIn(malformed_bodies()), name_of);

RequestView accepted(std::string_view bytes) {
  RequestView view;
  const auto check = check_request(bytes, {}, view);
  EXPECT_EQ(check.verdict, Verdict::kComplete) << check.refusal.what;
  EXPECT_EQ(check.bytes, bytes.find("\r\n\r\n") + 4);
  return view;
}

TEST(Framing, TellsAllPartsOfARequest) {
  const auto view = accepted(
      "POST /v1/x?y=1 HTTP/1.1\r\nHost: h:80\r\nA:  b c\t\r\nEmpty:\r\ncontent-length: 007\r\n\r\n"
      "rest");
  EXPECT_EQ(view.method, "POST");
  EXPECT_EQ(view.target, "/v1/x?y=1");
  EXPECT_EQ(view.version, 11u);
  ASSERT_EQ(view.fields.size(), 4u);
  EXPECT_EQ(view.fields[1].name, "A");
  EXPECT_EQ(view.fields[1].value, "b c");
  EXPECT_EQ(view.fields[2].value, "");
  EXPECT_EQ(view.body, BodyKind::kLength);
  EXPECT_EQ(view.length, 7u);
  EXPECT_TRUE(view.keep_alive);
}

TEST(Framing, AnAbsoluteTargetIsReadAsItsPath) {
  EXPECT_EQ(accepted("GET http://h:1/a?b HTTP/1.1\r\nHost: h\r\n\r\n").target, "/a?b");
  EXPECT_EQ(accepted("GET HTTPS://h HTTP/1.1\r\nHost: h\r\n\r\n").target, "/");
  EXPECT_EQ(accepted("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").target, "*");
}

TEST(Framing, KeepsAConnectionAsVersionAndFieldSay) {
  EXPECT_TRUE(accepted("GET / HTTP/1.1\r\nHost: h\r\n\r\n").keep_alive);
  EXPECT_FALSE(accepted("GET / HTTP/1.1\r\nHost: h\r\nConnection: CLOSE\r\n\r\n").keep_alive);
  EXPECT_FALSE(accepted("GET / HTTP/1.1\r\nHost: h\r\nConnection: te, close\r\n\r\n").keep_alive);
  EXPECT_FALSE(accepted("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(accepted("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

TEST(Framing, EveryPrefixOfAGoodHeaderIsIncomplete) {
  const std::string_view bytes =
      "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: Chunked\r\n\r\n";
  RequestView view;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(check_request(bytes.substr(0, size), {}, view).verdict, Verdict::kIncomplete) << size;
  }
  EXPECT_EQ(accepted(bytes).body, BodyKind::kChunked);
}

TEST(Framing, AHeaderAtItsLimitsIsTakenAndOneBeyondIsNot) {
  RequestView view;
  EXPECT_EQ(check_request(many_fields(100), {}, view).verdict, Verdict::kComplete);
  const std::string start = "GET / HTTP/1.1\r\nHost: x\r\nA: ";
  const std::string end = "\r\n\r\n";
  const std::string most = start + std::string(16 * 1024 - start.size() - end.size(), 'a') + end;
  EXPECT_EQ(check_request(most, {}, view).verdict, Verdict::kComplete);
  const std::string more =
      start + std::string(16 * 1024 - start.size() - end.size() + 1, 'a') + end;
  EXPECT_EQ(check_request(more, {}, view).refusal.status, 431u);
}

TEST(Framing, ReadsWhereAnAnswerEnds) {
  ResponseView view;
  const auto read = [&view](std::string_view bytes, bool to_head = false) {
    EXPECT_EQ(check_response(bytes, {}, to_head, view).verdict, Verdict::kComplete) << bytes;
    return view.body;
  };
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), BodyKind::kLength);
  EXPECT_EQ(view.length, 5u);
  EXPECT_EQ(read("HTTP/1.1 200 x y\r\nTransfer-Encoding: chunked\r\n\r\n"), BodyKind::kChunked);
  EXPECT_EQ(read("HTTP/1.1 200 \r\n\r\n"), BodyKind::kUntilClose);
  EXPECT_FALSE(view.keep_alive);
  EXPECT_EQ(read("HTTP/1.1 204 No Content\r\n\r\n"), BodyKind::kNone);
  EXPECT_EQ(read("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), BodyKind::kNone);
  EXPECT_EQ(read("HTTP/1.1 100 Continue\r\n\r\n"), BodyKind::kNone);
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true), BodyKind::kNone);
  EXPECT_EQ(read("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n"), BodyKind::kLength);
  EXPECT_FALSE(view.keep_alive);
}

TEST(Framing, RefusesAnswersWithTwoReadings) {
  ResponseView view;
  for (const std::string_view bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\n", "HTTP/2 200\r\n\r\n", "200 OK\r\n\r\n",
        "HTTP/1.1 200\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 -20 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n"}) {
    EXPECT_EQ(check_response(bytes, {}, false, view).verdict, Verdict::kRefused) << bytes;
  }
}

TEST(Chunks, AreTakenApartWhereverTheyAreCut) {
  const std::string_view in =
      "3\r\nabc\r\n00a;name=\"v\";x\r\n0123456789\r\n0\r\nT: 1\r\nU:\r\n\r\nNEXT";
  for (std::size_t piece = 1; piece <= in.size(); ++piece) {
    const auto out = decode(in, piece);
    EXPECT_EQ(out.data, "abc0123456789");
    EXPECT_TRUE(out.done);
    EXPECT_EQ(in.substr(out.consumed), "NEXT") << "in pieces of " << piece;
  }
}

std::uint64_t seed() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t value = given != nullptr ? std::stoull(given) : std::random_device()();
  std::printf("SLUICE_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
  return value;
}

TEST(Chunks, RandomBodiesComeBackWhole) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 300; ++round) {
    std::string data;
    std::string coded;
    for (std::uint64_t chunks = random() % 8; chunks > 0; --chunks) {
      const std::string one(1 + random() % 70, static_cast<char>(random()));
      char size[24];
      std::snprintf(size, sizeof size, "%zx\r\n", one.size());
      coded += size + one + "\r\n";
      data += one;
    }
    coded += "0\r\n\r\n";
    const auto out = decode(coded, 1 + random() % 40);
    ASSERT_TRUE(out.done) << out.error;
    ASSERT_EQ(out.data, data);
    ASSERT_EQ(out.consumed, coded.size());
  }
}

TEST(Chunks, DataReadToItsPlaceCountsAsConsumed) {
  ChunkDecoder decoder;
  EXPECT_EQ(decoder.next("a\r\n012").data, "012");
  EXPECT_EQ(decoder.remaining(), 7u);
  decoder.skip(7);
  EXPECT_EQ(decoder.remaining(), 0u);
  EXPECT_EQ(decoder.next("\r\n0\r\n\r\n").consumed, 7u);
  EXPECT_TRUE(decoder.done());
}

TEST(Framing, NamesAndValuesOfFields) {
  EXPECT_TRUE(is_token("x-Request_Id!"));
  for (const std::string_view bad : {"", "a b", "a:", "a\r\n", "\xc3\xa9"}) {
    EXPECT_FALSE(is_token(bad)) << bad;
  }
  EXPECT_TRUE(is_field_value("a \t\xc3\xa9"));
  for (const std::string_view bad : {"a\r\nB: c", "\n", "\x7f", "\x01"}) {
    EXPECT_FALSE(is_field_value(bad)) << bad;
  }
}

}  // namespace
}  // namespace sluice::http
