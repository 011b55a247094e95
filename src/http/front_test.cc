#include "http/front.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/test_client.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;

// Made outside of coroutines: g++ 12 compiles no initializer lists around a co_await.
std::vector<Header> typed(std::string type) {
  return {{"Content-Type", std::move(type)}};
}

asio::awaitable<void> echo(std::size_t, Exchange& exchange) {
  auto body = co_await exchange.read_body(1 << 20);
  if (!body) co_return;
  const auto& head = exchange.head();
  if (head.target == "/stream") {
    static_cast<void>(co_await exchange.begin(200, typed("text/event-stream")));
    const std::string_view one[] = {"data: ", "1", "\n\n"};
    const std::string_view two[] = {"data: 2\n\n"};
    static_cast<void>(co_await exchange.write(one));
    static_cast<void>(co_await exchange.write(two));
    static_cast<void>(co_await exchange.end());
    co_return;
  }
  std::string text = head.method + " " + head.target + " ";
  text.append(body->text());
  static_cast<void>(co_await exchange.answer(200, typed("text/plain"), std::move(text)));
}

std::unique_ptr<Front> start(FrontOptions options) {
  if (!options.handle) options.handle = echo;
  auto opened = Front::open(std::move(options));
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
  if (!opened) return nullptr;
  (*opened)->start();
  return std::move(*opened);
}

TEST(Front, KeepsAConnectionForManyRequests) {
  const auto front = start({});
  TestClient client(front->port());
  for (int i = 0; i < 3; ++i) {
    client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    const auto answer = client.read_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("POST /a abc")) << answer;
  }
}

TEST(Front, AnswersPipelinedRequestsInOrder) {
  const auto front = start({});
  TestClient client(front->port());
  client.send(
      "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
      "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("POST /1 abc"));
  EXPECT_TRUE(client.read_answer().ends_with("GET /2 "));
  EXPECT_TRUE(client.read_answer().ends_with("POST /3 de"));
}

TEST(Front, StreamsInChunks) {
  const auto front = start({});
  TestClient client(front->port());
  client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << head;
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n");
}

}  // namespace
}  // namespace sluice::http
