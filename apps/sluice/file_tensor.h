// file_tensor.h: one tensor inside a file: what it is, and where its bytes lie. What the file
// parsers answer with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/tensor.h>

namespace sluice::cli {

struct FileTensor {
  std::string name;
  TensorSpec spec;
  std::uint64_t offset = 0;  // of the first element, from the start of the file
  std::uint64_t bytes = 0;   // byte_size(spec), and inside the file
};

struct FileContent {
  std::vector<FileTensor> tensors;  // at least one
  Attributes attributes;
};

}  // namespace sluice::cli
