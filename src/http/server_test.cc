#include "http/server.h"

#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "http/probe.h"

namespace sluice::http {
namespace {

ServerOptions echo() {
  ServerOptions options;
  options.head = [](const RequestHead& head) {
    Admission admission;
    admission.quick = head.target.path == "/quick";
    admission.body_bytes_max = 1000;
    if (head.target.path == "/secret") {
      admission.refusal =
          Response{.status = 403, .body = "no\n", .headers = {}, .view = {}, .owner = {}};
    }
    return admission;
  };
  options.handle = [](const Request& request) {
    return Response{.status = 200,
                    .content_type = "text/plain",
                    .body = request.head.method + ":" + request.body,
                    .headers = {},
                    .view = {},
                    .owner = {}};
  };
  return options;
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

std::string exchange(std::uint16_t port, const std::string& bytes) {
  const UniqueFd fd = connect_to(port);
  EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  ::shutdown(fd.get(), SHUT_WR);
  std::string out;
  char block[4096];
  for (ssize_t n = 0; (n = ::recv(fd.get(), block, sizeof block, 0)) > 0;)
    out.append(block, static_cast<std::size_t>(n));
  return out;
}

class HttpServer : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Server::open(echo());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    server_ = std::move(*opened);
    server_->start();
  }
  std::unique_ptr<Server> server_;
};

TEST_F(HttpServer, AnswersQuickAndSlowRequestsAlike) {
  for (const char* target : {"/quick", "/slow"}) {
    const auto answer =
        probe({.port = server_->port(), .target = target, .timeout = std::chrono::seconds(10)});
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->status, 200u);
    EXPECT_EQ(answer->body, "GET:");
  }
}

TEST_F(HttpServer, ABodyOverItsLimitIs413BeforeItIsRead) {
  const std::string answer = exchange(
      server_->port(), "PUT /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413")) << answer;
  const std::string chunked =
      exchange(server_->port(),
               "PUT /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                   std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_TRUE(chunked.starts_with("HTTP/1.1 413")) << chunked;
}

TEST_F(HttpServer, ARefusalComesBeforeTheBody) {
  const std::string answer =
      exchange(server_->port(), "PUT /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 403")) << answer;
}

TEST_F(HttpServer, MalformedRequestsGetTheir4xxAndTheNextGoodOneIsServed) {
  EXPECT_TRUE(exchange(server_->port(), "garbage\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(exchange(server_->port(), "GET /%zz?x=%zz HTTP/1.1\r\nHost: x\r\n\r\n")
                  .starts_with("HTTP/1.1 400"));
  const std::string big =
      exchange(server_->port(), "GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(20000, 'a'));
  EXPECT_TRUE(big.starts_with("HTTP/1.1 431")) << big.substr(0, 80);
  EXPECT_TRUE(
      exchange(server_->port(), "GET /quick HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
          .starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServer, TwoRequestsShareAConnection) {
  const std::string answer =
      exchange(server_->port(),
               "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
               "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nde");
  EXPECT_NE(answer.find("POST:abc"), std::string::npos) << answer;
  EXPECT_NE(answer.find("POST:de"), std::string::npos) << answer;
}

TEST_F(HttpServer, ThePortOfALivingServerIsBusy) {
  auto second = echo();
  second.port = server_->port();
  const auto opened = Server::open(second);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::kUnavailable);
}

TEST_F(HttpServer, StopEndsWithConnectionsOpen) {
  const UniqueFd idle = connect_to(server_->port());
  ASSERT_TRUE(
      probe({.port = server_->port(), .target = "/quick", .timeout = std::chrono::seconds(10)})
          .has_value());
  server_->stop();
  char byte = 0;
  EXPECT_LE(::recv(idle.get(), &byte, 1, 0), 0);
}

TEST_F(HttpServer, MoreConnectionsThanItsLimitAreClosedAndItServesOn) {
  std::vector<UniqueFd> held;
  for (std::size_t i = 0; i < kConnectionsMax + 8; ++i) held.push_back(connect_to(server_->port()));
  std::size_t closed = 0;
  for (std::size_t i = kConnectionsMax; i < held.size(); ++i) {
    char byte = 0;
    closed += ::recv(held[i].get(), &byte, 1, 0) == 0 ? 1u : 0u;
  }
  EXPECT_EQ(closed, 8u);
  held.clear();
  // The freed places are noticed by the server's thread in its own time: ask until it has.
  bool served = false;
  for (int i = 0; i < 200 && !served; ++i) {
    served =
        probe({.port = server_->port(), .target = "/quick", .timeout = std::chrono::seconds(1)})
            .has_value();
  }
  EXPECT_TRUE(served);
}

TEST(HttpProbe, SaysWhenNothingListens) {
  auto opened = Server::open(echo());
  ASSERT_TRUE(opened.has_value());
  const std::uint16_t port = (*opened)->port();
  opened->reset();
  const auto answer = probe({.port = port});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace sluice::http
