// runs.h: copies between an object and memory that does not lie in one piece.
//
// Invariant: nothing outside the tensor and the runs' own memory is touched; a run is compared with
//            what is left of the tensor before it is copied.
// Threads:   one owner. The other side's memory stays still meanwhile.
// Failure:   kInvalidArgument for runs that leave a gap (filling), go back, or pass the tensor's end.
//            Some may have been copied by then.
#pragma once

#include <cstdint>
#include <span>

#include <sluice/client.h>

namespace sluice::store {

// Runs without a gap fill `elements` to its end.
Status fill_plain(std::span<std::byte> elements, const RunSource& runs);

// The same for a tensor of `object`, with the digests of all of the object's chunks: what is not the
// tensor's stands in place already.
Status fill_and_hash(std::span<std::byte> object, const TensorView& tensor, const RunSource& runs,
                     std::span<std::uint64_t> digests);

// Takes ascending runs out of an object, as far as the caller has come with checking it.
class RunsOut {
 public:
  // All three outlive it. Requires a tensor that lies inside the object.
  RunsOut(std::span<const std::byte> object, const TensorView& tensor, const RunSource& runs)
      : object_(object), tensor_(tensor), runs_(runs) {}

  // Whatever lies before `end`, an offset in the object. The object's end takes all that is left.
  Status copy_until(std::uint64_t end);

 private:
  Status next();  // sets `run_`; zero bytes: there is none

  std::span<const std::byte> object_;
  const TensorView& tensor_;
  const RunSource& runs_;
  std::span<const MemoryRun> batch_;
  MemoryRun run_;              // what is left of the current run
  std::uint64_t reached_ = 0;  // in the tensor
  bool ended_ = false;
};

}  // namespace sluice::store
