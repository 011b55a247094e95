#include "http/front.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/framing_cases.h"
#include "http/front_fixture.h"
#include "http/test_client.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

TEST(Front, KeepsAConnectionForManyRequests) {
  TestFront front;
  TestClient client(front.port());
  for (int i = 0; i < 3; ++i) {
    client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    const auto answer = client.read_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("\r\nDate: "), std::string::npos) << answer;
    EXPECT_TRUE(answer.ends_with("POST /a abc")) << answer;
  }
  EXPECT_EQ(front->connections(), 1u);
}

TEST(Front, AnswersPipelinedRequestsInOrder) {
  TestFront front;
  TestClient client(front.port());
  client.send(
      "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
      "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n"
      "GET http://x/4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("POST /1 abc"));
  EXPECT_TRUE(client.read_answer().ends_with("GET /2 "));
  EXPECT_TRUE(client.read_answer().ends_with("POST /3 de"));
  const auto last = client.read_all();
  EXPECT_TRUE(last.ends_with("GET /4 ")) << last;
  EXPECT_NE(last.find("Connection: close\r\n"), std::string::npos) << last;
}

TEST(Front, TakesARequestByteByByte) {
  TestFront front;
  TestClient client(front.port());
  const std::string_view request =
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n";
  for (const char c : request) ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_TRUE(client.read_answer().ends_with("POST /a abc"));
}

TEST(Front, TellsTheHandlerWhoAsks) {
  FrontOptions options;
  options.handle = [](std::size_t thread, Exchange& exchange) -> asio::awaitable<void> {
    const auto& head = exchange.head();
    EXPECT_EQ(thread, 0u);
    EXPECT_EQ(head.peer, "127.0.0.1");
    EXPECT_EQ(head.header("X-A"), "one");
    EXPECT_EQ(head.header("x-b"), "");
    EXPECT_EQ(head.content_length, 2u);
    static_cast<void>(co_await exchange.answer(204, {}, ""));
    EXPECT_EQ(exchange.status(), 204u);
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("PUT /?a HTTP/1.1\r\nhost: x\r\nx-A: one\r\nx-a: two\r\nContent-Length: 2\r\n\r\nab");
  const auto answer = client.read_until("\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 204 ")) << answer;
  EXPECT_EQ(answer.find("Content-Length"), std::string::npos) << answer;
}

TEST(Front, SaysContinueOnlyWhenTheBodyIsWanted) {
  FrontOptions options;
  options.handle = [](std::size_t thread, Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.head().target == "/no") {
      static_cast<void>(co_await exchange.answer(403, {}, "no"));
      co_return;
    }
    co_await echo(thread, exchange);
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  const std::string rest =
      " HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n";
  client.send("POST /yes" + rest);
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  EXPECT_TRUE(client.read_answer().ends_with("POST /yes abc"));
  client.send("POST /no" + rest);
  const auto refused = client.read_until("no");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 403 ")) << refused;
  EXPECT_NE(refused.find("Connection: close\r\n"), std::string::npos) << refused;
}

asio::awaitable<void> stream(std::size_t, Exchange& exchange) {
  std::vector<Header> headers = header_list("Content-Type", "text/event-stream");
  headers.emplace_back("Transfer-Encoding", "gzip");
  headers.emplace_back("connection", "upgrade");
  if (exchange.head().target == "/length") headers.emplace_back("content-length", "18");
  static_cast<void>(co_await exchange.begin(200, std::move(headers)));
  const std::string_view pieces[] = {"data: ", "1", "", "\n\n"};
  static_cast<void>(co_await exchange.write(pieces));
  static_cast<void>(co_await exchange.write({}));
  static_cast<void>(co_await write_one(exchange, "data: 2\n\n"));
  const auto ended = co_await exchange.end();
  EXPECT_TRUE(ended.has_value());
  const auto after = co_await write_one(exchange, "more");
  EXPECT_EQ(after.error().code, Code::kInvalidArgument);
}

TEST(Front, StreamsInChunks) {
  FrontOptions options;
  options.handle = stream;
  TestFront front(std::move(options));
  TestClient client(front.port());
  for (int i = 0; i < 2; ++i) {
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto head = client.read_until("\r\n\r\n");
    EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << head;
    EXPECT_EQ(head.find("gzip"), std::string::npos) << head;
    EXPECT_EQ(head.find("upgrade"), std::string::npos) << head;
    EXPECT_EQ(client.read_until("0\r\n\r\n"), "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  }
}

TEST(Front, StreamsToHttp10UntilItCloses) {
  FrontOptions options;
  options.handle = stream;
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto all = client.read_all();
  EXPECT_TRUE(all.ends_with("\r\nConnection: close\r\n\r\ndata: 1\n\ndata: 2\n\n")) << all;
  EXPECT_EQ(all.find("chunked"), std::string::npos) << all;
}

TEST(Front, StreamsAKnownLengthAsItIs) {
  FrontOptions options;
  options.handle = stream;
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("GET /length HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n"));
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.read_all().ends_with("\r\n\r\n"));
}

TEST(Front, Http10KeepsAConnectionThatAsksForIt) {
  TestFront front;
  TestClient client(front.port());
  for (int i = 0; i < 2; ++i) {
    client.send("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    const auto answer = client.read_answer();
    EXPECT_NE(answer.find("Connection: keep-alive\r\n"), std::string::npos) << answer;
  }
  client.send("GET /b HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client.read_all().ends_with("GET /b "));
}

TEST(Front, AHeadIsAnsweredWithoutItsBody) {
  TestFront front;
  TestClient client(front.port());
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const auto all = client.read_all();
  EXPECT_NE(all.find("Content-Length: 8\r\n"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
}

TEST(Front, ALargeBodyArrivesWholeInOneBufferWithItsPadding) {
  std::string large(20 << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 997) large[i] = static_cast<char>('a' + i % 26);
  FrontOptions options;
  options.handle = [&large](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    auto body = co_await exchange.read_body(64 << 20);
    EXPECT_TRUE(body.has_value());
    if (!body) co_return;
    EXPECT_TRUE(body->text() == large);
    EXPECT_EQ(std::string_view(body->text().data() + body->text().size(), Body::kPadding),
              std::string(Body::kPadding, '\0'));
    if (exchange.head().content_length) {
      EXPECT_LE(body->capacity(), large.size() + Body::kPadding);
    }
    static_cast<void>(co_await exchange.answer(200, {}, "ok"));
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(large.size()) +
              "\r\n\r\n");
  client.send(large);
  EXPECT_TRUE(client.read_answer().ends_with("ok"));
  client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (std::size_t at = 0; at < large.size();) {
    // Sizes around the borders between what passes through the small buffer and what does not.
    const std::size_t size = std::min(large.size() - at, at % 5 == 0 ? 70'001 : 3 + at % 9'000);
    char line[32];
    std::snprintf(line, sizeof line, "%zx\r\n", size);
    client.send(line + large.substr(at, size) + "\r\n");
    at += size;
  }
  client.send("0\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("ok"));
}

TEST(Front, AnExceptionOfTheHandlerIs500AndTheNextRequestIsServed) {
  FrontOptions options;
  options.handle = [](std::size_t thread, Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.head().target == "/throw") throw std::runtime_error("planned");
    if (exchange.head().target == "/silent") co_return;
    co_await echo(thread, exchange);
  };
  TestFront front(std::move(options));
  for (const char* target : {"/throw", "/silent"}) {
    TestClient client(front.port());
    client.send(std::string("GET ") + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto answer = client.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
    EXPECT_NE(answer.find(R"("type":"server_error")"), std::string::npos) << answer;
    EXPECT_EQ(answer.find("planned"), std::string::npos) << answer;
  }
  EXPECT_EQ(front.logged().at(0), "500 an exception left the handler: planned");
  TestClient client(front.port());
  client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("GET /a "));
}

TEST(Front, AnAnswerThatWasNotEndedIsCutOffVisibly) {
  FrontOptions options;
  options.handle = [](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    static_cast<void>(co_await exchange.begin(200, {}));
    static_cast<void>(co_await write_one(exchange, "half"));
    if (exchange.head().target == "/throw") throw std::runtime_error("planned");
  };
  TestFront front(std::move(options));
  for (const char* target : {"/throw", "/return"}) {
    TestClient client(front.port());
    client.send(std::string("GET ") + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto answer = client.read_all();
    EXPECT_TRUE(answer.ends_with("4\r\nhalf\r\n")) << answer;
  }
}

TEST(Front, AHeaderThatWouldBreakTheAnswerApartIsAnError) {
  FrontOptions options;
  options.handle = [](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    const auto split = co_await exchange.answer(200, header_list("A", "b\r\nC: d"), "x");
    EXPECT_EQ(split.error().code, Code::kInvalidArgument);
    EXPECT_FALSE(exchange.begun());
    const auto named = co_await exchange.begin(200, header_list("A b", "c"));
    EXPECT_EQ(named.error().code, Code::kInvalidArgument);
    static_cast<void>(co_await exchange.answer(200, {}, "fine"));
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("fine"));
}

TEST(Front, WritingMoreOrLessThanTheLengthIsAnError) {
  FrontOptions options;
  options.handle = [](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    static_cast<void>(co_await exchange.begin(200, header_list("Content-Length", "4")));
    const auto more = co_await write_one(exchange, "12345");
    EXPECT_EQ(more.error().code, Code::kInvalidArgument);
    static_cast<void>(co_await write_one(exchange, "123"));
    const auto less = co_await exchange.end();
    EXPECT_EQ(less.error().code, Code::kInvalidArgument);
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.read_all().ends_with("\r\n\r\n123"));
}

TEST(Front, MalformedRequestsAreAnsweredAndClosedAndNoHandlerSeesThem) {
  TestFront front;
  for (const auto& one : malformed_headers()) {
    TestClient client(front.port());
    client.send(one.bytes);
    const auto answer = client.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(one.status) + " "))
        << one.name << ": " << answer;
    EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos) << one.name;
    EXPECT_NE(answer.find(R"({"error":{"message":")"), std::string::npos) << one.name;
    EXPECT_TRUE(answer.ends_with(std::string(R"("type":"invalid_request_error","param":null,)") +
                                 R"("code":")" + one.code + "\"}}"))
        << one.name << ": " << answer;
  }
  EXPECT_EQ(front.requests(), 0u);
  EXPECT_EQ(front.logged().size(), malformed_headers().size());
}

TEST(Front, MalformedBodiesAreAnsweredAndClosed) {
  TestFront front;
  for (const auto& one : malformed_bodies()) {
    TestClient client(front.port());
    client.send(one.bytes);
    const auto answer = client.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << one.name << ": " << answer;
    EXPECT_TRUE(answer.ends_with(R"("code":"bad_chunk"}})")) << one.name << ": " << answer;
  }
}

TEST(Front, ARefusalAfterAHeadHasItsBody) {
  TestFront front;
  TestClient client(front.port());
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\ngarbage\r\n\r\n");
  EXPECT_TRUE(client.read_all().ends_with(R"("code":"bad_request_line"}})"));
}

TEST(Front, WhatFollowsABodyIsTheNextRequestAndNothingElse) {
  TestFront front;
  TestClient client(front.port());
  client.send("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGARBAGE\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("POST /1 abc"));
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(front.requests(), 1u);
}

TEST(Front, APortInUseAndAnAddressThatIsNoneAreErrors) {
  TestFront front({.threads = 2});
  for (const std::size_t threads : {1, 2}) {
    FrontOptions options{.port = front.port(), .threads = threads};
    options.handle = echo;
    const auto taken = Front::open(std::move(options));
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, Code::kUnavailable);
  }
  const auto name = Front::open({.host = "localhost", .handle = echo});
  ASSERT_FALSE(name.has_value());
  EXPECT_EQ(name.error().code, Code::kInvalidArgument);
}

TEST(Front, ThreadsShareAPortAndAllOfThemServe) {
  std::atomic<unsigned> seen = 0;
  FrontOptions options{.threads = 2};
  options.handle = [&seen](std::size_t thread, Exchange& exchange) -> asio::awaitable<void> {
    seen |= 1u << thread;
    static_cast<void>(co_await exchange.answer(200, {}, "ok"));
  };
  TestFront front(std::move(options));
  for (int i = 0; i < 200 && seen != 3; ++i) {
    TestClient client(front.port());
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(client.read_answer().ends_with("ok"));
  }
  EXPECT_EQ(seen, 3u);
}

}  // namespace
}  // namespace sluice::http
