#include "http/server.h"

#include <atomic>
#include <future>
#include <list>
#include <thread>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

namespace sluice::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;

namespace {

using BodyBytes = beast::http::span_body<const char>;

std::string_view reason_json(unsigned status) noexcept {
  switch (status) {
    case 400:
      return "{\"error\":\"bad_request\",\"message\":\"the request is malformed\"}\n";
    case 408:
      return "{\"error\":\"too_slow\",\"message\":\"the request took too long to arrive\"}\n";
    case 413:
      return "{\"error\":\"too_large\",\"message\":\"the body is larger than the server takes\"}\n";
    case 431:
      return "{\"error\":\"too_large\",\"message\":\"the header is larger than 16 KiB\"}\n";
    default:
      return "{\"error\":\"internal\",\"message\":\"the request could not be served\"}\n";
  }
}

Response plain_refusal(unsigned status) {
  return Response{.status = status,
                  .body = std::string(reason_json(status)),
                  .headers = {},
                  .view = {},
                  .owner = {}};
}

// The status a broken read is answered with; 0 when the peer is gone and nothing can be said.
unsigned status_of(beast::error_code error) noexcept {
  using HttpError = beast::http::error;
  if (error == HttpError::end_of_stream || error == asio::error::connection_reset ||
      error == asio::error::operation_aborted || error == asio::error::eof ||
      error == HttpError::partial_message) {
    return 0;
  }
  if (error == beast::error::timeout) return 408;
  if (error == HttpError::header_limit || error == HttpError::buffer_overflow) return 431;
  if (error == HttpError::body_limit) return 413;
  return 400;
}

template <class Parser>
RequestHead head_of(const Parser& parser, Target target) {
  RequestHead head;
  const auto& message = parser.get();
  head.method = std::string(message.method_string());
  head.target = std::move(target);
  head.host = std::string(message[beast::http::field::host]);
  head.authorization = std::string(message[beast::http::field::authorization]);
  if (const auto length = parser.content_length()) head.content_length = *length;
  return head;
}

}  // namespace

class Server::Core {
 public:
  explicit Core(ServerOptions options) : options_(std::move(options)), acceptor_(io_) {}

  Status listen();
  void start();
  void stop();
  std::uint16_t port() const noexcept { return port_; }

 private:
  using Stream = beast::tcp_stream;

  asio::awaitable<void> accept_loop();
  asio::awaitable<void> serve(std::shared_ptr<Stream> stream);
  asio::awaitable<bool> serve_one(Stream& stream, beast::flat_buffer& buffer);
  asio::awaitable<Response> run_handler(const Request& request, bool quick);
  asio::awaitable<void> send(Stream& stream, const Response& response, unsigned version,
                             bool keep_alive, bool head_only);

  ServerOptions options_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::thread_pool workers_{2};
  std::thread thread_;
  std::uint16_t port_ = 0;
  // I/O thread only. Shared with each connection's coroutine, so that stop() can close a socket
  // that it is waiting on.
  std::list<std::weak_ptr<Stream>> streams_;
  std::size_t connections_ = 0;
  bool stopping_ = false;
};

Status Server::Core::listen() {
  beast::error_code error;
  const auto address = asio::ip::make_address(options_.host, error);
  if (error) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is not an IP address", options_.host));
  }
  const tcp::endpoint endpoint(address, options_.port);
  static_cast<void>(acceptor_.open(endpoint.protocol(), error));
  if (!error)
    static_cast<void>(acceptor_.set_option(asio::socket_base::reuse_address(true), error));
  if (!error) static_cast<void>(acceptor_.bind(endpoint, error));
  if (!error) static_cast<void>(acceptor_.listen(asio::socket_base::max_listen_connections, error));
  if (error) {
    const std::string where = fmt::format("{}:{}", options_.host, options_.port);
    if (error == asio::error::address_in_use) {
      return fail(Code::kUnavailable, fmt::format("port {} is taken by another process", where));
    }
    if (error == asio::error::access_denied) {
      return fail(Code::kPermission, fmt::format("this user may not listen on {}", where));
    }
    return fail(Code::kIo, fmt::format("cannot listen on {}: {}", where, error.message()));
  }
  port_ = acceptor_.local_endpoint(error).port();
  return {};
}

void Server::Core::start() {
  asio::co_spawn(io_, accept_loop(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

void Server::Core::stop() {
  if (!thread_.joinable()) return;
  std::promise<void> closed;
  asio::post(io_, [this, &closed] {
    stopping_ = true;
    beast::error_code ignored;
    static_cast<void>(acceptor_.close(ignored));
    for (const auto& weak : streams_) {
      if (const auto stream = weak.lock()) stream->close();
    }
    closed.set_value();
  });
  closed.get_future().wait();  // from here on no coroutine hands a request to the workers
  workers_.join();
  thread_.join();
}

asio::awaitable<void> Server::Core::accept_loop() {
  while (!stopping_) {
    beast::error_code error;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (stopping_) co_return;
    if (error) {
      // Out of descriptors, or the peer left: breathe, then go on accepting.
      asio::steady_timer pause(io_, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (connections_ >= kConnectionsMax) {
      static_cast<void>(socket.close(error));
      continue;
    }
    ++connections_;
    // Shared: the coroutine owns it, stop() may close it.
    auto stream = std::make_shared<Stream>(std::move(socket));
    streams_.remove_if([](const auto& weak) { return weak.expired(); });
    streams_.push_back(stream);
    asio::co_spawn(io_, serve(std::move(stream)), asio::detached);
  }
}

asio::awaitable<void> Server::Core::serve(std::shared_ptr<Stream> stream) {
  try {
    beast::flat_buffer buffer(kHeaderBytesMax + 64 * 1024);
    // Two statements: g++ 12 evaluates the co_await of an && whatever stands before it.
    for (bool keep = true; keep && !stopping_;) keep = co_await serve_one(*stream, buffer);
    beast::error_code ignored;
    static_cast<void>(stream->socket().shutdown(tcp::socket::shutdown_both, ignored));
  } catch (const std::exception&) {
    // The Beast edge: a failed allocation or a broken peer ends this connection, nothing else.
    beast::error_code ignored;
    static_cast<void>(stream->socket().close(ignored));
  }
  --connections_;
}

asio::awaitable<bool> Server::Core::serve_one(Stream& stream, beast::flat_buffer& buffer) {
  beast::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  beast::http::request_parser<beast::http::string_body> parser;
  parser.header_limit(kHeaderBytesMax);
  parser.body_limit(boost::none);  // decided below, once we know who asks for what
  stream.expires_after(kHeaderTimeout);
  co_await beast::http::async_read_header(stream, buffer, parser, token);
  if (error) {
    if (const unsigned status = status_of(error); status != 0) {
      co_await send(stream, plain_refusal(status), 11, false, false);
    }
    co_return false;
  }
  const unsigned version = parser.get().version();
  const bool head_only = parser.get().method() == beast::http::verb::head;
  auto target =
      parse_target(std::string_view(parser.get().target().data(), parser.get().target().size()));
  if (!target) {
    co_await send(stream, plain_refusal(400), version, false, head_only);
    co_return false;
  }
  Request request{.head = head_of(parser, std::move(*target)), .body = {}};
  Admission admission = options_.head(request.head);
  const bool has_body = parser.chunked() || parser.content_length().value_or(0) > 0;
  if (!admission.refusal && parser.content_length().value_or(0) > admission.body_bytes_max) {
    admission.refusal = plain_refusal(413);
  }
  if (admission.refusal) {
    if (options_.log) options_.log(request.head, admission.refusal->status);
    const bool keep =
        !has_body && parser.keep_alive();  // an unread body makes the connection unusable
    co_await send(stream, *admission.refusal, version, keep, head_only);
    co_return keep;
  }
  if (beast::iequals(parser.get()[beast::http::field::expect], "100-continue")) {
    beast::http::response<beast::http::empty_body> go_on{beast::http::status::continue_, version};
    stream.expires_after(kWriteTimeout);
    co_await beast::http::async_write(stream, go_on, token);
    if (error) co_return false;
  }
  parser.body_limit(admission.body_bytes_max);
  stream.expires_after(kBodyTimeout);
  co_await beast::http::async_read(stream, buffer, parser, token);
  if (error) {
    if (const unsigned status = status_of(error); status != 0) {
      if (options_.log) options_.log(request.head, status);
      co_await send(stream, plain_refusal(status), version, false, head_only);
    }
    co_return false;
  }
  const bool keep = parser.keep_alive();
  request.body = std::move(parser.get().body());
  if (stopping_) co_return false;
  stream.expires_never();
  const Response response = co_await run_handler(request, admission.quick);
  if (options_.log) options_.log(request.head, response.status);
  co_await send(stream, response, version, keep, head_only);
  co_return keep;
}

asio::awaitable<Response> Server::Core::run_handler(const Request& request, bool quick) {
  if (quick) co_return options_.handle(request);
  co_return co_await asio::co_spawn(
      workers_,
      [this, &request]() -> asio::awaitable<Response> { co_return options_.handle(request); },
      asio::use_awaitable);
}

asio::awaitable<void> Server::Core::send(Stream& stream, const Response& response, unsigned version,
                                         bool keep_alive, bool head_only) {
  beast::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const std::span<const char> bytes =
      response.owner
          ? std::span(reinterpret_cast<const char*>(response.view.data()), response.view.size())
          : std::span<const char>(response.body);
  beast::http::response<BodyBytes> message;
  message.version(version);
  message.result(response.status);
  message.set(beast::http::field::content_type, response.content_type);
  message.set(beast::http::field::cache_control, "no-store");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep_alive);
  message.body() = beast::span<const char>(bytes.data(), bytes.size());
  message.content_length(bytes.size());
  beast::http::response_serializer<BodyBytes> serializer(message);
  stream.expires_after(kWriteTimeout);
  if (head_only) {
    co_await beast::http::async_write_header(stream, serializer, token);
  } else {
    co_await beast::http::async_write(stream, serializer, token);
  }
  if (!keep_alive && !error) {
    // Let a peer that is still sending a refused body read the answer: closing now would reset the
    // connection under it.
    static_cast<void>(stream.socket().shutdown(tcp::socket::shutdown_send, error));
    std::vector<char> drop(64 * 1024);
    stream.expires_after(kRefusedBodyTimeout);
    for (std::size_t dropped = 0; dropped < kRefusedBodyBytesMax && !error;) {
      dropped += co_await stream.async_read_some(asio::buffer(drop), token);
    }
  }
}

Server::Server(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Server::~Server() {
  stop();
}

Result<std::unique_ptr<Server>> Server::open(ServerOptions options) {
  auto core = std::make_unique<Core>(std::move(options));
  if (auto status = core->listen(); !status) return std::unexpected(status.error());
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

std::uint16_t Server::port() const noexcept {
  return core_->port();
}
void Server::start() {
  core_->start();
}
void Server::stop() {
  core_->stop();
}

}  // namespace sluice::http
