#include "http/probe.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "http/limits.h"

namespace sluice::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

constexpr std::uint64_t kProbeBodyBytesMax = 1 << 20;

Error error_of(beast::error_code error, const std::string& where) {
  if (error == beast::error::timeout)
    return {Code::kTimedOut, Drop::kPeer, fmt::format("{} did not answer in time", where)};
  if (error == asio::error::connection_refused) {
    return {Code::kUnavailable, Drop::kPeer, fmt::format("nothing listens on {}", where)};
  }
  return {Code::kIo, Drop::kPeer, fmt::format("{}: {}", where, error.message())};
}

}  // namespace

Result<ProbeAnswer> probe(const ProbeOptions& options) {
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  try {
    asio::io_context io;
    beast::tcp_stream stream(io);
    beast::flat_buffer buffer;
    beast::error_code error;
    beast::http::request<beast::http::empty_body> request{beast::http::verb::get, options.target,
                                                          11};
    request.set(beast::http::field::host, where);
    request.set(beast::http::field::connection, "close");
    beast::http::response_parser<beast::http::string_body> parser;
    parser.header_limit(kHeaderBytesMax);
    parser.body_limit(kProbeBodyBytesMax);

    const auto address = asio::ip::make_address(options.host, error);
    if (error)
      return fail(Code::kInvalidArgument, fmt::format("'{}' is not an IP address", options.host));
    // Three asynchronous steps on a private loop: the stream's deadline covers all of them
    // together.
    stream.expires_after(options.timeout);
    stream.async_connect(
        asio::ip::tcp::endpoint(address, options.port), [&](beast::error_code connected) {
          error = connected;
          if (error) return;
          beast::http::async_write(stream, request, [&](beast::error_code written, std::size_t) {
            error = written;
            if (error) return;
            beast::http::async_read(stream, buffer, parser,
                                    [&](beast::error_code read, std::size_t) { error = read; });
          });
        });
    io.run();
    if (error) return std::unexpected(error_of(error, where));
    return ProbeAnswer{parser.get().result_int(), std::move(parser.get().body())};
  } catch (const std::exception& caught) {  // the Beast edge
    return fail(Code::kIo, fmt::format("{}: {}", where, caught.what()), Drop::kPeer);
  }
}

}  // namespace sluice::http
