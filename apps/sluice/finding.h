// finding.h: one thing that `doctor` looked at.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

enum class Level { kOk, kNote, kWarning, kProblem };

struct Finding {
  Level level = Level::kOk;
  std::string area;  // "machine", "python", "topology", "arena", ...
  std::string what;
  std::string fix;  // what to do; empty when there is nothing to do
};

using Findings = std::vector<Finding>;

}  // namespace sluice::cli
