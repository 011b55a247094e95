#include "http/upstream.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "http/answer_head.h"
#include "http/framing.h"
#include "http/link.h"
#include "http/link_pool.h"
#include "http/upstream_call.h"

namespace sluice::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kFieldsMax = 256;
constexpr unsigned kInterimMax = 16;  // answers before the answer

// Made here, or of no use to an engine.
bool is_left_out(std::string_view name) noexcept {
  return is_framing_field(name) || equal_ignoring_case(name, "host") ||
         equal_ignoring_case(name, "expect");
}

bool takes_body(std::string_view method) noexcept {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

bool is_target(std::string_view target) noexcept {
  if (!target.starts_with('/')) return false;
  for (const char c : target) {
    if (c <= 0x20 || c >= 0x7f) return false;
  }
  return true;
}

Result<std::string> request_head(const UpstreamRequest& request, const Endpoint& endpoint,
                                 bool keep_alive) {
  if (!is_token(request.method) || !is_target(request.target)) {
    return fail(Code::kInvalidArgument, "the request's method or target is not well-formed");
  }
  std::uint64_t length = 0;
  for (const auto piece : request.body) length += piece.size();
  std::string out;
  out.reserve(512);
  auto to = std::back_inserter(out);
  // The authority as in the URL, whose scheme has 7 characters.
  fmt::format_to(to, "{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target,
                 endpoint.text().substr(7));
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name) || !is_field_value(value)) {
      return fail(Code::kInvalidArgument,
                  fmt::format("the request's field '{}' holds what no field may", name));
    }
    if (is_left_out(name)) continue;
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (length > 0 || takes_body(request.method)) {
    fmt::format_to(to, "Content-Length: {}\r\n", length);
  }
  out.append(keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
  return out;
}

// A connection while its request is sent and its answer's header read.
struct Attempt {
  std::unique_ptr<Link> link;
  StopGuard guard;
  bool heard = false;  // a byte of an answer came
};

asio::awaitable<Result<std::vector<tcp::endpoint>>> resolve(asio::io_context& io,
                                                            const Endpoint& endpoint) {
  error_code error;
  std::vector<tcp::endpoint> found;
  const auto address = asio::ip::make_address(endpoint.host, error);
  if (!error) {
    found.emplace_back(address, endpoint.port);
    co_return found;
  }
  tcp::resolver resolver(io);
  const auto results =
      co_await resolver.async_resolve(endpoint.host, std::to_string(endpoint.port),
                                      asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    co_return fail(Code::kUnavailable,
                   fmt::format("cannot resolve '{}': {}", endpoint.host, error.message()));
  }
  for (const auto& result : results) found.push_back(result.endpoint());
  co_return found;
}

// To the first address that takes it. A fresh link for each, since a failed one is closed for good.
asio::awaitable<Status> connect(LinkPool& pool, Attempt& attempt, StopSource* stop,
                                Clock::time_point deadline) {
  const auto found = co_await resolve(pool.io(), pool.options().endpoint);
  if (!found) co_return std::unexpected(found.error());
  Status status = fail(Code::kUnavailable, "the engine's name has no address");
  for (const auto& address : *found) {
    attempt.guard.release();
    attempt.link = pool.make();
    Link* const link = attempt.link.get();
    if (stop != nullptr) attempt.guard = StopGuard(*stop, [link] { link->stop(); });
    const auto patience = Clock::now() + pool.options().connect_timeout;
    link->deadline(std::min(patience, deadline));
    status = co_await link->connect(address);
    if (status) {
      pool.connected();
      link->deadline(deadline);
      co_return status;
    }
    // Its own patience ran out, not the request's.
    if (status.error().code == Code::kTimedOut && Clock::now() < deadline) {
      status =
          fail(Code::kUnavailable,
               fmt::format("{} takes no connection", pool.options().endpoint.text()), Drop::kPeer);
    }
    if (stop != nullptr && stop->stopped()) co_return status;
  }
  co_return status;
}

asio::awaitable<Status> read_head(Attempt& attempt, std::size_t bytes_max, bool to_head,
                                  ResponseView& answer) {
  const HeadLimits limits{.bytes_max = bytes_max, .fields_max = kFieldsMax};
  auto& buffer = attempt.link->buffer();
  for (unsigned interim = 0;;) {
    const auto check = check_response(buffer.bytes(), limits, to_head, answer);
    if (check.verdict == Verdict::kRefused) {
      co_return fail(check.refusal.status == 431 ? Code::kLimit : Code::kIo,
                     fmt::format("the engine's answer is malformed: {}", check.refusal.what),
                     Drop::kTransfer);
    }
    if (check.verdict == Verdict::kComplete) {
      buffer.consume(check.bytes);  // its views stay until the next read
      if (answer.status >= 200) co_return Status();
      if (answer.status == 101 || ++interim > kInterimMax) {
        co_return fail(Code::kIo, "the engine gives no answer that ends a request",
                       Drop::kTransfer);
      }
      continue;
    }
    std::size_t got = 0;
    if (auto status = co_await attempt.link->fill(got); !status) co_return status;
    if (got > 0) {
      attempt.heard = true;
    } else if (attempt.heard) {
      co_return fail(Code::kIo, "the engine closed in the middle of its answer", Drop::kTransfer);
    } else {
      co_return fail(Code::kUnavailable, "the engine closed the connection before an answer",
                     Drop::kTransfer);
    }
  }
}

asio::awaitable<Status> exchange(LinkPool& pool, Attempt& attempt, std::string_view head,
                                 const UpstreamRequest& request, ResponseView& answer) {
  Gather gather;
  gather.add(head);
  for (const auto piece : request.body) gather.add(piece);
  auto sent = co_await attempt.link->send(gather);
  if (!sent && attempt.link->stopped()) co_return sent;
  // An engine that takes no more of the body may have said why.
  auto read = co_await read_head(attempt, pool.options().read_buffer_bytes,
                                 request.method == "HEAD", answer);
  if (sent) co_return read;
  answer.keep_alive = false;
  if (!read && !attempt.heard) co_return sent;
  co_return read;
}

void learn(LinkPool& pool, const ResponseView& answer) {
  for (const auto& [name, value] : answer.fields) {
    if (equal_ignoring_case(name, "keep-alive")) pool.learn(value);
  }
}

class UpstreamImpl final : public Upstream {
 public:
  UpstreamImpl(asio::io_context& io, UpstreamOptions options)
      : pool_(std::make_shared<LinkPool>(io, std::move(options))) {}
  ~UpstreamImpl() override { pool_->close(); }

  asio::awaitable<Result<std::unique_ptr<Call>>> send(const UpstreamRequest& request,
                                                      StopSource* stop) override {
    return run(pool_, request, stop);
  }
  Counts counts() const noexcept override {
    Counts counts = pool_->counts();
    counts.idle = pool_->idle();
    return counts;
  }
  void set_idle_max(std::chrono::milliseconds idle_max) override { pool_->set_idle_max(idle_max); }

 private:
  // Shares the pool: the Upstream may end while a call waits.
  static asio::awaitable<Result<std::unique_ptr<Call>>> run(std::shared_ptr<LinkPool> pool,
                                                            const UpstreamRequest& request,
                                                            StopSource* stop);

  std::shared_ptr<LinkPool> pool_;
};

asio::awaitable<Result<std::unique_ptr<Call>>> UpstreamImpl::run(std::shared_ptr<LinkPool> pool,
                                                                 const UpstreamRequest& request,
                                                                 StopSource* stop) {
  const auto head = request_head(request, pool->options().endpoint, pool->idle_max().count() > 0);
  if (!head) co_return std::unexpected(head.error());
  for (bool retry = false;; retry = true) {
    if (stop != nullptr && stop->stopped()) {
      co_return fail(Code::kUnavailable, "the request was cancelled", Drop::kTransfer);
    }
    if (Clock::now() >= request.deadline) {
      co_return fail(Code::kTimedOut, "the request's deadline has passed", Drop::kTransfer);
    }
    Attempt attempt;
    if (!retry) attempt.link = pool->take();
    const bool reused = attempt.link != nullptr;
    Status status;
    if (reused) {
      pool->reused();
      Link* const link = attempt.link.get();
      link->deadline(request.deadline);
      if (stop != nullptr) attempt.guard = StopGuard(*stop, [link] { link->stop(); });
    } else {
      status = co_await connect(*pool, attempt, stop, request.deadline);
    }
    ResponseView answer;
    if (status) status = co_await exchange(*pool, attempt, *head, request, answer);
    if (status) {
      learn(*pool, answer);
      co_return std::make_unique<UpstreamCall>(pool, std::move(attempt.link),
                                               std::move(attempt.guard), answer);
    }
    if (reused && !attempt.heard && !attempt.link->stopped()) {
      pool->retried();  // the engine closed the connection while it idled
      continue;
    }
    pool->failed();
    co_return std::unexpected(std::move(status.error()));
  }
}

}  // namespace

std::unique_ptr<Upstream> Upstream::make(asio::io_context& io, UpstreamOptions options) {
  return std::make_unique<UpstreamImpl>(io, std::move(options));
}

}  // namespace sluice::http
