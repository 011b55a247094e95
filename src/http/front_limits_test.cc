// Every limit of the server, and clients that attack them while others are served.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "http/front.h"
#include "http/front_fixture.h"
#include "http/test_client.h"
#include "http/test_pace.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

asio::awaitable<void> small_echo(std::size_t, Exchange& exchange) {
  auto body = co_await exchange.read_body(1000);
  if (!body) co_return;
  static_cast<void>(co_await exchange.answer(200, {}, std::string(body->text())));
}

TEST(FrontLimits, ABodyOverItsLimitIs413BeforeItIsSent) {
  FrontOptions options;
  options.handle = small_echo;
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  const auto answer = client.read_until("}}");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  EXPECT_NE(answer.find(R"("code":"body_too_large")"), std::string::npos) << answer;
}

TEST(FrontLimits, AClientThatGoesOnSendingReadsIts413) {
  FrontOptions options;
  options.handle = small_echo;
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n");
  EXPECT_TRUE(client.send(std::string(20'000'000, 'x')));
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 413 "));
}

TEST(FrontLimits, ChunksThatOverflowTheBodyAre413AtOnce) {
  FrontOptions options;
  options.handle = small_echo;
  TestFront front(std::move(options));
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string half = "1f4\r\n" + std::string(500, 'x') + "\r\n";
  {
    TestClient client(front.port());
    client.send(head + half + half + "1\r\nx\r\n");
    EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 413 "));
  }
  {
    TestClient client(front.port());
    client.send(head + half + "7000000000000000\r\n");  // refused by its size alone
    EXPECT_TRUE(client.read_until("}}").starts_with("HTTP/1.1 413 "));
  }
  TestClient client(front.port());
  client.send(head + half + half + "0\r\n\r\n");
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST(FrontLimits, ASlowHeaderIs408HoweverOftenAByteComes) {
  TestFront front({.limits = {.header_timeout = 200ms}});
  TestClient client(front.port());
  const auto start = Steady::now();
  for (int i = 0; i < 8; ++i) {
    client.send(kGet.substr(i, 1));
    std::this_thread::sleep_for(20ms);
  }
  const auto answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
  EXPECT_GE(Steady::now() - start, 200ms);
  EXPECT_LT(Steady::now() - start, 2s);
}

TEST(FrontLimits, AnIdleConnectionIsClosedWithoutAWord) {
  TestFront front({.limits = {.idle_timeout = 100ms}});
  TestClient fresh(front.port());
  EXPECT_EQ(fresh.read_all(), "");
  TestClient used(front.port());
  used.send(kGet);
  EXPECT_TRUE(used.read_answer().ends_with("GET /a "));
  EXPECT_EQ(used.read_all(), "");
}

TEST(FrontLimits, ASlowBodyIs408AndOneThatTricklesIsNot) {
  TestFront front({.limits = {.body_idle_timeout = 250ms}});
  for (const std::string_view framing :
       {"Content-Length: 8\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n8\r\n"}) {
    TestClient slow(front.port());
    slow.send("POST /a HTTP/1.1\r\nHost: x\r\n" + std::string(framing) + "abc");
    const auto answer = slow.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
    EXPECT_NE(answer.find(R"("code":"body_timeout")"), std::string::npos) << answer;
  }
  TestClient steady(front.port());
  steady.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n");
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(50ms);
    steady.send("x");
  }
  EXPECT_TRUE(steady.read_answer().ends_with("POST /a xxxxxxxx"));
}

TEST(FrontLimits, TheHandlerMayWordTheRefusalOfABodyItself) {
  FrontOptions options;
  options.handle = [](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    const auto body = co_await exchange.read_body(10);
    EXPECT_EQ(body.error().code, Code::kLimit);
    static_cast<void>(co_await exchange.answer(413, {}, "my words"));
  };
  TestFront front(std::move(options));
  TestClient client(front.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nabcdefghijk");
  const auto answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  EXPECT_TRUE(answer.ends_with("my words")) << answer;
}

TEST(FrontLimits, ConnectionsBeyondTheirNumberAre503WithRetryAfter) {
  TestFront front({.limits = {.connections_max = 3}});
  std::vector<std::unique_ptr<TestClient>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(std::make_unique<TestClient>(front.port()));
    held.back()->send(kGet);
    EXPECT_TRUE(held.back()->read_answer().ends_with("GET /a "));
  }
  for (int i = 0; i < 3; ++i) {
    TestClient more(front.port());
    more.send(kGet);
    const auto answer = more.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
    EXPECT_NE(answer.find("Retry-After: 1\r\n"), std::string::npos) << answer;
  }
  EXPECT_EQ(front.requests(), 3u);
  held.pop_back();
  ASSERT_TRUE(eventually([&front] { return front->connections() == 2; }, 5s));
  TestClient again(front.port());
  again.send(kGet);
  EXPECT_TRUE(again.read_answer().ends_with("GET /a "));
}

// Writes without end until the client takes no more.
struct Producer {
  std::atomic<std::size_t> written = 0;
  std::atomic<int> failed = -1;

  asio::awaitable<void> operator()(std::size_t, Exchange& exchange) {
    const std::string piece(10'000, 'x');
    static_cast<void>(co_await exchange.begin(200, {}));
    for (;;) {
      const auto status = co_await write_one(exchange, piece);
      if (!status) {
        // Nothing may follow a chunk that broke off.
        const auto after = co_await write_one(exchange, "late");
        EXPECT_EQ(after.error().code, Code::kUnavailable);
        failed = static_cast<int>(status.error().code);
        co_return;
      }
      written += piece.size();
    }
  }
};

TEST(FrontLimits, ASlowReaderStopsItsProducerAndIsGivenUpInTheEnd) {
  Producer producer;
  FrontOptions options{.limits = {.write_timeout = 300ms}};
  options.handle = std::ref(producer);
  TestFront front(std::move(options));
  TestClient client(front.port(), 16 * 1024);
  client.send(kGet);
  ASSERT_TRUE(eventually([&producer] { return producer.failed != -1; }, 10s));
  EXPECT_EQ(producer.failed, static_cast<int>(Code::kTimedOut));
  // The kernel's buffers of both sides, and nothing of ours.
  EXPECT_GT(producer.written, 0u);
  EXPECT_LT(producer.written, 600u * 1024);
  ASSERT_TRUE(eventually([&front] { return front->connections() == 0; }, 5s));
}

TEST(FrontLimits, AReaderThatPausesGetsEveryByteInOrder) {
  FrontOptions options;
  options.handle = [](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    static_cast<void>(co_await exchange.begin(200, header_list("Content-Length", "8000000")));
    for (int i = 0; i < 80; ++i) {
      const std::string piece(100'000, static_cast<char>('a' + i % 26));
      const std::string_view pieces[] = {std::string_view(piece).substr(0, 33'333),
                                         std::string_view(piece).substr(33'333)};
      if (!co_await exchange.write(pieces)) co_return;
    }
    static_cast<void>(co_await exchange.end());
  };
  TestFront front(std::move(options));
  TestClient client(front.port(), 16 * 1024);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  client.read_until("\r\n\r\n");
  std::this_thread::sleep_for(100ms);  // the producer stands meanwhile
  const auto all = client.read_all();
  ASSERT_EQ(all.size(), 8'000'000u);
  for (std::size_t i = 0; i < all.size(); i += 1000) {
    ASSERT_EQ(all[i], static_cast<char>('a' + i / 100'000 % 26)) << i;
  }
}

TEST(FrontLimits, FifteenHundredSlowClientsDoNotHoldUpTheOthers) {
  Producer producer;
  constexpr auto kPatience = 3'000ms + (kPace - 1) * 500ms;
  FrontOptions options{.limits = {.header_timeout = kPatience,
                                  .body_idle_timeout = kPatience,
                                  .write_timeout = kPatience}};
  options.handle = [&producer](std::size_t thread, Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.head().target == "/produce") return producer(thread, exchange);
    return echo(thread, exchange);
  };
  TestFront front(std::move(options));
  std::vector<std::unique_ptr<TestClient>> slow;
  for (int i = 0; i < 500; ++i) {
    slow.push_back(std::make_unique<TestClient>(front.port()));
    slow.back()->send("GET / HTTP/1.1\r\nHost:");
    slow.push_back(std::make_unique<TestClient>(front.port()));
    slow.back()->send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc");
    slow.push_back(std::make_unique<TestClient>(front.port(), 4 * 1024));
    slow.back()->send("GET /produce HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  auto longest = Steady::duration::zero();
  TestClient normal(front.port());
  for (std::size_t i = 0; i < 50; ++i) {
    const auto start = Steady::now();
    normal.send(kGet);
    ASSERT_TRUE(normal.read_answer().ends_with("GET /a "));
    // The first one waits behind fifteen hundred connections that are being taken.
    if (i > 0) longest = std::max(longest, Steady::now() - start);
  }
  EXPECT_LT(longest, 500ms * kPace);
  EXPECT_GE(front->connections(), 1'001u);
  // Each is dealt with by its own deadline.
  EXPECT_TRUE(eventually([&front] { return front->connections() == 1; }, 20s))
      << front->connections();
  std::size_t answered = 0;
  for (std::size_t i = 0; i < slow.size(); ++i) {
    if (i % 3 != 2) answered += slow[i]->read_all().starts_with("HTTP/1.1 408 ") ? 1 : 0;
  }
  EXPECT_EQ(answered, 1'000u);
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(FrontLimits, AnIdleConnectionTakesAtMost16KiB) {
  constexpr std::size_t kIdle = 2'000;
  FrontOptions options;
  options.handle = [](std::size_t, Exchange& exchange) -> asio::awaitable<void> {
    const auto body = co_await exchange.read_body(1 << 20);
    const unsigned status = body ? 200 : 500;
    static_cast<void>(co_await exchange.answer(status, {}, "ok"));
  };
  TestFront front(std::move(options));
  const std::string large = "POST /a HTTP/1.1\r\nHost: x\r\nA: " + std::string(8'000, 'a') +
                            "\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x');
  std::vector<std::unique_ptr<TestClient>> idle;
  idle.reserve(kIdle);
  for (std::size_t i = 0; i < 20; ++i) {  // what is made once
    idle.push_back(std::make_unique<TestClient>(front.port()));
    idle.back()->send(large);
    idle.back()->read_answer();
  }
  const std::size_t before = resident_bytes();
  while (idle.size() < kIdle) {
    idle.push_back(std::make_unique<TestClient>(front.port()));
    idle.back()->send(idle.size() % 2 == 0 ? std::string_view(large) : kGet);
    ASSERT_TRUE(idle.back()->read_answer().starts_with("HTTP/1.1 200 "));
  }
  const std::size_t each = (resident_bytes() - before) / (kIdle - 20);
  std::printf("%zu bytes for each of %zu idle connections, the test's own part included\n", each,
              kIdle);
  EXPECT_LE(each, 16u * 1024 * kPace);
  EXPECT_EQ(front->connections(), kIdle);
  idle.front()->send(kGet);
  EXPECT_TRUE(idle.front()->read_answer().ends_with("ok"));
}

}  // namespace
}  // namespace sluice::http
