// upstream_call.h: an answer of an engine whose header has been read.
//
// Invariant: its connection goes back to the pool only when the body was read to its end, the
//            engine keeps the connection and sent nothing behind the answer; else it is closed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/chunks.h"
#include "http/framing.h"
#include "http/link.h"
#include "http/link_pool.h"
#include "http/stop_source.h"
#include "http/upstream.h"

namespace sluice::http {

class UpstreamCall final : public Call {
 public:
  // `guard` stops `link`.
  UpstreamCall(std::shared_ptr<LinkPool> pool, std::unique_ptr<Link> link, StopGuard guard,
               const ResponseView& head);
  ~UpstreamCall() override;

  unsigned status() const noexcept override { return status_; }
  const std::vector<Header>& headers() const noexcept override { return headers_; }
  std::string_view header(std::string_view name) const noexcept override;
  boost::asio::awaitable<Result<std::string_view>> read() override;
  boost::asio::awaitable<Result<std::string>> read_all(std::size_t bytes_max) override;
  void cancel() noexcept override;

 private:
  Result<std::string_view> take();
  Result<std::string_view> take_chunks();
  boost::asio::awaitable<Result<std::string>> read_length(std::size_t bytes_max);
  std::unexpected<Error> broken(Error error) noexcept;
  void release() noexcept;

  std::shared_ptr<LinkPool> pool_;
  std::unique_ptr<Link> link_;  // null: given back or closed
  StopGuard guard_;
  unsigned status_;
  std::vector<Header> headers_;
  BodyKind body_;
  bool keep_alive_;
  bool done_ = false;
  bool broken_ = false;
  std::uint64_t left_;      // of a body whose length is known
  std::size_t handed_ = 0;  // bytes of the buffer that the last read() handed out
  ChunkDecoder chunks_;
};

}  // namespace sluice::http
