// lease.h: the Python handle of a lease, and the memory that tensors made from it share.
//
// Invariant: the C++ Lease ends when its handle and its last view are gone, or at release() without
//            views; never while a tensor can still reach the bytes.
// Threads:   handles with the GIL; the memory may be given up by any thread.
// Failure:   Detached after its end; release() with live views is refused as InvalidArgument, and
//            nothing ends.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include <sluice/client.h>

#include "bindings.h"
#include "view.h"

namespace sluice::python {

class LeaseMemory final : public Pinned {
 public:
  explicit LeaseMemory(Lease lease) noexcept : lease_(std::move(lease)) {}
  const Lease& lease() const;  // raises Detached once it ended
  bool alive() const noexcept { return static_cast<bool>(lease_); }
  void release();  // raises while there are views

 private:
  Lease lease_;
};

struct LeaseHandle {
  std::shared_ptr<LeaseMemory> memory;  // shared with the views; null after a `with` block
};

// Verifies without the GIL, which is kept when there is nothing to do.
[[nodiscard]] Status verify_lease(const std::shared_ptr<LeaseMemory>& memory, Verify mode);

// A view of one tensor; without a name of the only one.
std::shared_ptr<View> view_of(const std::shared_ptr<LeaseMemory>& memory,
                              std::optional<std::string_view> name, bool shared);

}  // namespace sluice::python
