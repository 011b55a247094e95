#include "http/listen.h"

#include <fmt/format.h>
#include <sys/socket.h>

namespace sluice::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

Status failed(const ListenOptions& options, const error_code& error) {
  const std::string where = fmt::format("{} port {}", options.host, options.port);
  if (error == asio::error::address_in_use) {
    return fail(Code::kUnavailable, fmt::format("{} is taken by another process", where));
  }
  if (error == asio::error::access_denied) {
    return fail(Code::kPermission, fmt::format("this user may not listen on {}", where));
  }
  return fail(Code::kIo, fmt::format("cannot listen on {}: {}", where, error.message()));
}

}  // namespace

Status bind_acceptor(tcp::acceptor& acceptor, const ListenOptions& options, bool first) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is not an IP address", options.host));
  }
  const tcp::endpoint endpoint(address, options.port);
  static_cast<void>(acceptor.open(endpoint.protocol(), error));
  if (!error) static_cast<void>(acceptor.set_option(tcp::acceptor::reuse_address(true), error));
  if (!error && !first) static_cast<void>(acceptor.set_option(ReusePort(true), error));
  if (!error) static_cast<void>(acceptor.bind(endpoint, error));
  if (!error && first) static_cast<void>(acceptor.set_option(ReusePort(true), error));
  // Accepted sockets inherit these.
  if (!error) static_cast<void>(acceptor.set_option(tcp::no_delay(true), error));
  if (!error && options.send_buffer_bytes > 0) {
    // The kernel doubles what it is told, for its own bookkeeping.
    const auto bytes = static_cast<int>(options.send_buffer_bytes / 2);
    static_cast<void>(acceptor.set_option(asio::socket_base::send_buffer_size(bytes), error));
  }
  return error ? failed(options, error) : Status();
}

Status start_listening(tcp::acceptor& acceptor, const ListenOptions& options) {
  error_code error;
  static_cast<void>(acceptor.listen(4096, error));
  return error ? failed(options, error) : Status();
}

}  // namespace sluice::http
