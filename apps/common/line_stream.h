// line_stream.h: the lines of a log, written to a standard stream by a thread of their own.
//
// Invariant: who logs never waits for the stream: not for a pipe whose reader stands still, not for
//            a terminal that is held, not for a slow disk. What finds no room in the queue costs the
//            oldest line of it. Lost lines are counted, and once the stream takes lines again it
//            says how many are missing.
// Threads:   logger() from any; the rest from the owner's. The writing thread takes no signal.
// Limits:    kLinesMax lines wait. The destructor gives the stream kLeaveMs to take them.
// Failure:   lines that the stream refuses (its reader is gone, its disk is full) are lost as well.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace sluice::app {

inline constexpr std::size_t kLinesMax = 4096;
inline constexpr int kLeaveMs = 1000;

class LineStream {
 public:
  // `pattern` is spdlog's; `loss` makes of a count the message that says so many lines are missing.
  LineStream(int fd, const std::string& name, const std::string& pattern,
             std::function<std::string(std::uint64_t)> loss);
  ~LineStream();
  LineStream(const LineStream&) = delete;
  LineStream& operator=(const LineStream&) = delete;

  // Lines are kept back until a flush.
  spdlog::logger& logger() const noexcept;
  // Takes no line's room: does nothing while something waits, so ask again a little later.
  void flush() const;
  std::uint64_t lost() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::app
