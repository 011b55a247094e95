// http_load.cc: HTTP load for the serving benchmarks: one thread, keep-alive connections, whole or streamed answers.
//
// Closed loop by default: each connection sends its next request when its answer is complete. With --rate, requests are
// due at fixed times and a latency counts from then, so that a slow answer does not hide those that wait behind it.
//
// usage:   bench_http_load --port N [--connections N] [--seconds N] [--rate N] [--body FILE] [--path TEXT]
//          Every `@@@@@@@@` in the body becomes the request's number, so that requests can differ.
// Output:  series latency_ns, and seconds, requests, events (of server-sent streams), failures, one sample each.
// Failure: an answer that is not 200, or a connection that ends, counts as a failure; the connection is made anew.
//          More than 1 % of failures ends the program with 1.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "rig.h"

namespace sluice::bench {
namespace {

constexpr std::string_view kMark = "@@@@@@@@";
constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kGraceNs = 60 * kNsPerSecond;  // for one answer a connection, at least

struct Load {
  std::uint16_t port = 0;
  std::uint64_t connections = 32;
  double seconds = 2;
  double rate = 0;  // requests a second, or 0: as many as are answered
  std::string path = "/v1/chat/completions";
  std::string body;
};

// Finds the end of an answer in what arrives, and counts its events.
class Answer {
 public:
  // True when the answer is complete with the last of `bytes`.
  bool take(std::string_view bytes) {
    text_.append(bytes);
    if (!has_head_ && !take_head()) return false;
    if (!chunked_) return text_.size() >= length_;
    return take_chunks();
  }
  bool ok() const { return ok_; }
  std::uint64_t events() const { return events_; }
  bool ends_connection() const { return closes_; }
  void clear() {
    text_.clear();
    has_head_ = chunked_ = ok_ = closes_ = false;
    length_ = events_ = 0;
  }

 private:
  bool take_head() {
    const auto end = text_.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    std::string head = text_.substr(0, end + 2);
    std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
    ok_ = head.starts_with("http/1.1 200 ");
    chunked_ = head.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos;
    closes_ = head.find("\r\nconnection: close\r\n") != std::string::npos;
    if (const auto at = head.find("\r\ncontent-length: "); at != std::string::npos) {
      const char* digits = head.data() + at + std::strlen("\r\ncontent-length: ");
      std::from_chars(digits, head.data() + head.size(), length_);
    }
    text_.erase(0, end + 4);
    has_head_ = true;
    return true;
  }

  bool take_chunks() {
    std::size_t at = 0;
    bool complete = false;
    while (!complete) {
      const auto line_end = text_.find("\r\n", at);
      if (line_end == std::string::npos) break;
      std::size_t size = 0;
      std::from_chars(text_.data() + at, text_.data() + line_end, size, 16);
      const std::size_t data = line_end + 2;
      if (text_.size() - data < 2 || text_.size() - data - 2 < size) break;
      count_events(std::string_view(text_).substr(data, size));
      at = data + size + 2;
      complete = size == 0;
    }
    text_.erase(0, at);
    return complete;
  }

  // An event ends with an empty line; one that is cut by a chunk's end is counted with the second line feed.
  void count_events(std::string_view data) {
    for (const char c : data) {
      if (c == '\n' && last_ == '\n') ++events_;
      last_ = c;
    }
  }

  std::string text_;
  bool has_head_ = false, chunked_ = false, ok_ = false, closes_ = false;
  char last_ = 0;
  std::size_t length_ = 0;
  std::uint64_t events_ = 0;
};

struct Connection {
  UniqueFd fd;
  bool busy = false, wants_out = false;
  Instant began = 0;
  std::string request;
  std::size_t sent = 0;
  Answer answer;
};

class Generator {
 public:
  explicit Generator(Load load)
      : load_(std::move(load)), latency_("latency_ns", "ns"), read_(kReadBytes) {
    const std::string head = fmt::format(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n"
        "content-length: {}\r\n\r\n",
        load_.path, load_.port, load_.body.size());
    request_ = head + load_.body;
    for (auto at = request_.find(kMark); at != std::string::npos;
         at = request_.find(kMark, at + kMark.size())) {
      marks_.push_back(at);
    }
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) die("epoll_create1");
    connections_.resize(load_.connections);
  }

  void run() {
    for (std::size_t i = 0; i < connections_.size(); ++i) connect(i);
    start_ = now();
    const auto end = start_ + static_cast<std::uint64_t>(load_.seconds * kNsPerSecond);
    Instant last = start_;
    while (last < end || (requests_ < load_.connections && last < end + kGraceNs)) {
      begin_due();
      wait(std::max(end, last + kNsPerSecond / 10));
      last = now();
    }
    report(static_cast<double>(last - start_) / kNsPerSecond);
  }

 private:
  void connect(std::size_t index) {
    Connection& c = connections_[index];
    c.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(load_.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(c.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      die(fmt::format("connect: {}", std::strerror(errno)));
    }
    const int on = 1;
    ::setsockopt(c.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = index}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.fd.get(), &event);
    c.busy = c.wants_out = false;
    idle_.push_back(index);
  }

  void begin_due() {
    while (!idle_.empty()) {
      Instant due = now();
      if (load_.rate > 0) {
        const double offset = static_cast<double>(begun_) * kNsPerSecond / load_.rate;
        if (start_ + static_cast<std::uint64_t>(offset) > due) return;
        due = start_ + static_cast<std::uint64_t>(offset);
      }
      const std::size_t index = idle_.front();
      idle_.erase(idle_.begin());
      begin(index, due);
    }
  }

  void begin(std::size_t index, Instant due) {
    Connection& c = connections_[index];
    const std::string number = fmt::format("{:08x}", begun_++);
    if (c.request.empty()) c.request = request_;
    for (const std::size_t at : marks_) c.request.replace(at, number.size(), number);
    c.busy = true;
    c.began = due;
    c.sent = 0;
    c.answer.clear();
    send(index);
  }

  void send(std::size_t index) {
    Connection& c = connections_[index];
    while (c.sent < c.request.size()) {
      const ssize_t sent = ::send(c.fd.get(), c.request.data() + c.sent, c.request.size() - c.sent,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) return watch(index, true);
      if (sent < 0) return failed(index);
      c.sent += static_cast<std::size_t>(sent);
    }
    if (c.wants_out) watch(index, false);
  }

  void watch(std::size_t index, bool out) {
    epoll_event event{.events = EPOLLIN | (out ? EPOLLOUT : 0u), .data = {.u64 = index}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connections_[index].fd.get(), &event);
    connections_[index].wants_out = out;
  }

  void wait(Instant end) {
    Instant until = end;
    if (load_.rate > 0 && !idle_.empty()) {
      const double offset = static_cast<double>(begun_) * kNsPerSecond / load_.rate;
      until = std::min(end, start_ + static_cast<std::uint64_t>(offset));
    }
    const Instant t = now();
    const timespec timeout = to_timespec(until > t ? until - t : 0);
    std::array<epoll_event, 64> events;
    const int count = ::epoll_pwait2(epoll_.get(), events.data(), events.size(), &timeout, nullptr);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if ((event.events & EPOLLOUT) != 0) send(event.data.u64);
      if ((event.events & ~EPOLLOUT) != 0) receive(event.data.u64);
    }
  }

  void receive(std::size_t index) {
    Connection& c = connections_[index];
    const ssize_t got = ::recv(c.fd.get(), read_.data(), read_.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return failed(index);
    if (!c.busy) return failed(index);
    const std::uint64_t before = c.answer.events();
    const bool complete = c.answer.take({read_.data(), static_cast<std::size_t>(got)});
    events_ += c.answer.events() - before;
    if (!complete) return;
    ++requests_;
    if (!c.answer.ok()) ++failures_;
    latency_.add_ns(c.began, now());
    c.busy = false;
    if (c.answer.ends_connection()) return connect(index);
    idle_.push_back(index);
  }

  void failed(std::size_t index) {
    if (connections_[index].busy) {
      ++requests_;
      ++failures_;
    } else {
      std::erase(idle_, index);
    }
    connect(index);
  }

  void report(double seconds) {
    const auto one = [](std::string name, std::string unit, double value) {
      Series series(std::move(name), std::move(unit));
      series.add(value);
      series.print();
    };
    latency_.print();
    one("seconds", "s", seconds);
    one("requests", "1", static_cast<double>(requests_));
    one("events", "1", static_cast<double>(events_));
    one("failures", "1", static_cast<double>(failures_));
    if (failures_ * 100 > requests_) die(fmt::format("{} of {} failed", failures_, requests_));
  }

  Load load_;
  std::string request_;
  std::vector<std::size_t> marks_;
  UniqueFd epoll_;
  std::vector<Connection> connections_;
  std::vector<std::size_t> idle_;
  Series latency_;
  std::vector<char> read_;
  Instant start_ = 0;
  std::uint64_t begun_ = 0, requests_ = 0, events_ = 0, failures_ = 0;
};

template <class T>
T number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    die(fmt::format("'{}' is not a number", text));
  }
  return value;
}

Load read_load(int argc, char** argv) {
  Load load;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) die(fmt::format("{} needs a value", flag));
    const std::string_view value = argv[i + 1];
    if (flag == "--port") {
      load.port = number_of<std::uint16_t>(value);
    } else if (flag == "--connections") {
      load.connections = number_of<std::uint64_t>(value);
    } else if (flag == "--seconds") {
      load.seconds = number_of<double>(value);
    } else if (flag == "--rate") {
      load.rate = number_of<double>(value);
    } else if (flag == "--path") {
      load.path = value;
    } else if (flag == "--body") {
      std::ifstream file{std::string(value), std::ios::binary};
      load.body.assign(std::istreambuf_iterator<char>(file), {});
      if (load.body.empty()) die(fmt::format("{} cannot be read", value));
    } else {
      die(fmt::format("unknown flag {}", flag));
    }
  }
  if (load.port == 0 || load.connections == 0) die("--port and at least one connection are needed");
  return load;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Generator(sluice::bench::read_load(argc, argv)).run();
  return 0;
}
