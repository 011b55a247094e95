// watchdog.h: one timer for the deadlines of many connections of one thread.
//
// A deadline moves with every read and write, so moving it must cost a store and no system call:
// the timer stands at the earliest deadline it has seen, and when it fires it looks through its
// entries.
//
// Invariant: an entry is called after its deadline, at most kGranularity late (and late as a busy
//            thread is), never before; once, and then not before it is given a new one.
// Threads:   the io_context's only.
// Owner:     entries belong to whoever embeds them and leave the list when destroyed. They must not
//            outlive the io_context's thread of use, but may outlive the watchdog.
// Limits:    a look through n entries costs O(n), at most once in kGranularity.
#pragma once

#include <chrono>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>

namespace sluice::http {

using Clock = std::chrono::steady_clock;

class Watchdog {
 public:
  static constexpr std::chrono::milliseconds kGranularity{20};

  class Entry : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   protected:
    ~Entry() = default;

   private:
    friend class Watchdog;
    virtual void on_deadline() = 0;

    Clock::time_point deadline_ = Clock::time_point::max();
  };

  explicit Watchdog(boost::asio::io_context& io);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void expires_at(Entry& entry, Clock::time_point deadline);
  void expires_after(Entry& entry, Clock::duration wait) { expires_at(entry, Clock::now() + wait); }
  static void never(Entry& entry) noexcept { entry.deadline_ = Clock::time_point::max(); }

 private:
  struct Timer;

  void arm(Clock::time_point when);
  void look();

  boost::intrusive::list<Entry, boost::intrusive::constant_time_size<false>> entries_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace sluice::http
