// listen.h: acceptors of several threads on one address.
//
// Invariant: the address is ours alone although our acceptors share it: the first is bound without
//            SO_REUSEPORT, so that another program's acceptor there is an error and not a share.
// Failure:   kInvalidArgument for no IP address, kUnavailable when the port is taken, kPermission
//            when it may not be bound, kIo otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include <sluice/error.h>

namespace sluice::http {

struct ListenOptions {
  std::string host;
  std::uint16_t port = 0;
  std::size_t send_buffer_bytes = 0;  // of accepted connections; 0: the system's default
};

// Binds `acceptor`; the sockets that it accepts send without delay. `first`: the first on this
// port.
Status bind_acceptor(boost::asio::ip::tcp::acceptor& acceptor, const ListenOptions& options,
                     bool first);
// After all of them were bound.
Status start_listening(boost::asio::ip::tcp::acceptor& acceptor, const ListenOptions& options);

}  // namespace sluice::http
