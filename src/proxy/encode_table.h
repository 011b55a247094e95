// encode_table.h: encodes in flight, so that equal items are encoded once.
//
// Invariant: for one key there is at most one encode; everybody who waits when it ends gets its
//            result or its failure, once. It is cancelled when the last who waits has left.
// Threads:   any: one mutex, never held while a callback runs (the waiters of one item sit on
//            several workers). Callbacks run on the thread that calls finish() or leave(); they
//            only post.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "proxy/openai_error.h"
#include "sched/retry.h"

namespace sluice::proxy {

struct EncodedItem {
  std::string identifier;
  std::string state;     // published, writing or absent
  std::string entry;     // JSON of the identifier's entry, as the encoder gave it
  std::string metadata;  // JSON; empty when the state is absent
};

struct EncodeFailure {
  sched::Failure failure = sched::Failure::kRefused;
  OpenAiError error;
};

using EncodeResult = std::expected<EncodedItem, EncodeFailure>;

class EncodeTable {
 public:
  // The result is shared: all waiters read the same one, on several threads.
  using Waiter = std::function<void(std::shared_ptr<const EncodeResult>)>;

  struct Place {
    std::uint64_t number = 0;  // of this waiter
    std::uint64_t job = 0;
    bool first = false;  // the caller must start the encode, and end it with finish()
  };
  Place join(const std::string& key, Waiter waiter);
  // The encode's own way to stop; runs at once when nobody waits any more.
  void set_cancel(const std::string& key, std::uint64_t job, std::function<void()> cancel);
  void leave(const std::string& key, std::uint64_t number);
  // Of an encode that was cancelled meanwhile: finishes nothing.
  void finish(const std::string& key, std::uint64_t job, EncodeResult result);
  std::size_t size() const;

 private:
  struct Job {
    std::uint64_t number = 0;
    std::map<std::uint64_t, Waiter> waiters;
    std::function<void()> cancel;
  };
  mutable std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::unordered_map<std::string, Job> jobs_;
};

}  // namespace sluice::proxy
