// part.h: a part of a hand-off on its way into and out of the arena, with its checksums in the same
// pass.
//
// Invariant: no byte of a chunk that does not match its checksum reaches the cache. What
//            read_part() copied before it failed is of no use: the blocks count as not loaded.
// Threads:   one owner of the writer or lease; the cache keeps still.
// Failure:   kInvalidArgument naming what does not fit, before a byte moves; kCorrupt; what fill()
//            and copy_runs() answer (client.h).
#pragma once

#include <cstddef>

#include <sluice/client.h>

#include "kv/paged_copy.h"

namespace sluice::kv {

// Gathers into tensor `index`; publish() is all that may follow.
Status write_part(Writer& writer, std::size_t index, const Transfer& transfer);

// Scatters out of `tensor`, one of the lease's. Verifies all of the object, as `verify` says.
Status read_part(const Lease& lease, const TensorView& tensor, const Transfer& transfer,
                 Verify verify);

}  // namespace sluice::kv
