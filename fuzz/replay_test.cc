// Runs one fuzz target over its kept corpus, so that ordinary builds replay what fuzzing found.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fuzz_target.h"

namespace sluice::fuzz {
namespace {

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_FUZZ_CORPUS)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// A broken promise aborts; the last name printed is the input that broke it.
TEST(FuzzCorpus, SLUICE_FUZZ_NAME) {
  const auto files = corpus();
  ASSERT_FALSE(files.empty()) << "no inputs in " << SLUICE_FUZZ_CORPUS;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    ASSERT_TRUE(in) << file;
    // An exact heap block, so that the address sanitizer sees a read one byte beyond the input.
    const std::vector<char> input{std::istreambuf_iterator<char>(in), {}};
    std::fprintf(stderr, "%s\n", file.filename().c_str());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace sluice::fuzz
