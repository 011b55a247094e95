// live_ids.h: request ids that are in use now, so that two requests with one id are told apart.
//
// Threads: any; one mutex for one look-up (two requests with one id may sit on two workers).
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace sluice::proxy {

class LiveIds {
 public:
  // The name under which the request is known to engines until it leaves: `wanted`, or with a
  // number behind it while another request has that.
  std::string enter(std::string_view wanted);
  void leave(const std::string& name);

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> names_;
};

// A caller's id that may be used: 1..128 of letters, digits and "-_.:".
bool is_request_id(std::string_view id) noexcept;

}  // namespace sluice::proxy
