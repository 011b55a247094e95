// connection.h: one client's connection: its requests one after the other, each as an Exchange.
//
// Invariant: at most one read is under way. Between requests and, once a body has been read, while
//            the handler works, that read waits for whatever comes next: a pipelined request, which
//            stays in the buffer, or the client's end. A client that pipelines more than the buffer
//            takes is read no further, and its end is noticed when it is written to.
// Threads:   its worker's only.
// Owner:     shared by its coroutine and by the read under way, which may end after it.
// Failure:   nothing a client does ends more than its connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/intrusive/list.hpp>

#include "http/answer_head.h"
#include "http/chunks.h"
#include "http/exchange.h"
#include "http/framing.h"
#include "http/front.h"
#include "http/gather.h"
#include "http/input_buffer.h"
#include "http/watchdog.h"

namespace sluice::http {

// What a worker lends to its connections.
struct ConnectionHost {
  const FrontOptions& options;
  std::size_t thread = 0;
  Watchdog& watchdog;
  RequestView view;  // of the header being read; used between two waits only
  HttpDate date;
  bool draining = false;  // no connection is kept
};

class Connection final : public Exchange,
                         private Watchdog::Entry,
                         public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  Connection(ConnectionHost& host, Socket socket, std::string peer);

  // Serves until the connection is closed.
  boost::asio::awaitable<void> run();
  // Answers 503 and closes.
  boost::asio::awaitable<void> turn_away();

  bool idle() const noexcept { return idle_; }    // no byte of a request is there
  void close() noexcept;                          // whatever waits ends with an error
  void cut_off();                                 // close(), and the handler is told
  void give_up() noexcept { waiter_ = nullptr; }  // the thread has stopped for good

  const ExchangeHead& head() const noexcept override { return head_; }
  boost::asio::awaitable<Result<Body>> read_body(std::uint64_t bytes_max) override;
  boost::asio::awaitable<Status> answer(unsigned status, std::vector<Header> headers,
                                        std::string body) override;
  boost::asio::awaitable<Status> begin(unsigned status, std::vector<Header> headers) override;
  boost::asio::awaitable<Status> write(std::span<const std::string_view> pieces) override;
  boost::asio::awaitable<Status> end() override;
  bool begun() const noexcept override { return begun_; }
  unsigned status() const noexcept override { return status_; }
  void on_gone(std::function<void()> callback) override;

  Hook hook;

 private:
  // Reading.
  boost::asio::awaitable<bool> next_request();
  boost::asio::awaitable<void> wait_for_input();
  boost::asio::awaitable<Status> read_more();
  boost::asio::awaitable<Status> read_to(char* place, std::size_t bytes, std::size_t& got);
  Status body_read_failed() noexcept;
  boost::asio::awaitable<Status> read_length(Body& body);
  boost::asio::awaitable<Status> read_chunks(Body& body, std::uint64_t bytes_max);
  Status take_chunks(Body& body, std::uint64_t bytes_max);
  void take_head(const RequestView& view);
  void arm_read();
  void after_read(const boost::system::error_code& error, std::size_t bytes);
  static void reserve(Body& body, std::size_t bytes);
  void finish(Body& body);
  Status body_refused(unsigned status, std::string_view code, std::string_view what,
                      Code error) noexcept;

  // Answering.
  boost::asio::awaitable<bool> serve();
  boost::asio::awaitable<bool> run_handler();
  boost::asio::awaitable<void> refuse(Refusal refusal);
  Status start_answer(unsigned status, std::span<const Header> headers, AnswerBody body,
                      std::uint64_t length);
  boost::asio::awaitable<Status> send(Gather& gather);
  boost::asio::awaitable<void> linger();
  bool bodiless() const noexcept;
  void lost() noexcept;
  void tell_gone();

  void on_deadline() override;
  void log(std::string_view what, unsigned status) const;

  ConnectionHost& host_;
  Socket socket_;
  InputBuffer input_;
  ExchangeHead head_;

  // The request's body.
  BodyKind body_ = BodyKind::kNone;
  ChunkDecoder chunks_;
  bool body_done_ = true;
  bool body_asked_ = false;
  bool expects_continue_ = false;
  Refusal refusal_;  // what the request is answered when its handler does not

  // The answer.
  std::string out_;  // its header, until it has left
  AnswerBody answer_body_ = AnswerBody::kNone;
  std::uint64_t answer_left_ = 0;
  unsigned status_ = 0;
  unsigned version_ = 11;
  bool begun_ = false;
  bool ended_ = false;
  bool keep_alive_ = true;

  // The connection.
  bool idle_ = false;
  bool in_handler_ = false;
  bool timed_out_ = false;  // a deadline ended the wait that comes back now
  bool gone_ = false;       // the client's end was read, or a read or write failed
  bool cut_ = false;        // an answer broke off somewhere; nothing can follow it
  std::function<void()> on_gone_;
  std::move_only_function<void()> waiter_;  // the coroutine, while it waits for the read
};

}  // namespace sluice::http
