// seeing.h: what a client sees of its arena, as Python dictionaries with the field names of
// include/sluice/client.h.
#pragma once

#include <vector>

#include <nanobind/nanobind.h>

#include <sluice/client.h>

namespace sluice::python {

nanobind::list to_list(const std::vector<ObjectInfo>& objects);
nanobind::list to_list(const std::vector<ClientInfo>& clients);
nanobind::dict to_dict(const ArenaStats& stats);

}  // namespace sluice::python
