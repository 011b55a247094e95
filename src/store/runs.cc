#include "store/runs.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/checksum.h"

namespace sluice::store {
namespace {

// Calls take(run) for each run, which follow each other from 0 to `bytes`.
template <class Take>
Status each_in_order(std::uint64_t bytes, const RunSource& runs, const Take& take) {
  std::uint64_t reached = 0;
  for (auto batch = runs(); !batch.empty(); batch = runs()) {
    for (const MemoryRun& run : batch) {
      if (run.offset != reached || run.bytes > bytes - reached) {
        return fail(Code::kInvalidArgument,
                    fmt::format("a run of {} bytes at {} where {} of {} are filled", run.bytes,
                                run.offset, reached, bytes));
      }
      take(run);
      reached += run.bytes;
    }
  }
  if (reached == bytes) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("the runs fill {} of the tensor's {} bytes", reached, bytes));
}

}  // namespace

Status fill_plain(std::span<std::byte> elements, const RunSource& runs) {
  return each_in_order(elements.size(), runs, [&](const MemoryRun& run) {
    const CopyRun copy{.to = elements.data() + run.offset, .from = run.memory, .bytes = run.bytes};
    sluice::copy_runs(std::span(&copy, 1), elements.size());
  });
}

Status fill_and_hash(std::span<std::byte> object, const TensorView& tensor, const RunSource& runs,
                     std::span<std::uint64_t> digests) {
  CopyAndHash copy(object, digests);
  copy.add({.bytes = tensor.data_offset});
  auto filled = each_in_order(tensor.data_bytes, runs, [&](const MemoryRun& run) {
    copy.add({.bytes = run.bytes, .from = run.memory});
  });
  if (!filled) return filled;
  copy.add({.bytes = copy.left()});
  copy.finish();
  return {};
}

Status RunsOut::next() {
  while (run_.bytes == 0 && !ended_) {
    if (batch_.empty()) batch_ = runs_();
    if (batch_.empty()) {
      ended_ = true;
      return {};
    }
    run_ = batch_.front();
    batch_ = batch_.subspan(1);
    if (run_.offset < reached_ || !fits(run_.offset, run_.bytes, tensor_.data_bytes)) {
      return fail(Code::kInvalidArgument,
                  fmt::format("a run of {} bytes at {} behind {} of the tensor's {}", run_.bytes,
                              run_.offset, reached_, tensor_.data_bytes));
    }
    reached_ = run_.offset + run_.bytes;
  }
  return {};
}

Status RunsOut::copy_until(std::uint64_t end) {
  std::array<CopyRun, 64> copies;
  std::size_t count = 0;
  const auto flush = [&] {
    sluice::copy_runs(std::span(copies).first(count), object_.size());
    count = 0;
  };
  for (;;) {
    if (auto found = next(); !found) return found;
    const std::uint64_t at = tensor_.data_offset + run_.offset;
    if (run_.bytes == 0 || at >= end) break;
    const std::uint64_t bytes = std::min(run_.bytes, end - at);
    copies[count++] = {.to = run_.memory, .from = object_.data() + at, .bytes = bytes};
    if (count == copies.size()) flush();
    run_.offset += bytes;
    run_.memory += bytes;
    run_.bytes -= bytes;
  }
  flush();
  return {};
}

}  // namespace sluice::store
