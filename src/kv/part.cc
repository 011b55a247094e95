#include "kv/part.h"

#include "kv/runs.h"

namespace sluice::kv {

Status write_part(Writer& writer, std::size_t index, const Transfer& transfer) {
  if (auto s = check_gather(writer.data(index).size(), transfer); !s) return s;
  Runs runs(transfer);
  return writer.fill(index, [&] { return runs.next(); });
}

Status read_part(const Lease& lease, const TensorView& tensor, const Transfer& transfer,
                 Verify verify) {
  if (auto s = check_scatter(tensor.data_bytes, transfer); !s) return s;
  Runs runs(transfer);
  return lease.copy_runs(tensor, [&] { return runs.next(); }, verify);
}

}  // namespace sluice::kv
