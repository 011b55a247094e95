#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "tensor/golden_file.h"

namespace sluice::tensor::testing {

std::mt19937_64 seeded() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  return std::mt19937_64(seed);
}

}  // namespace sluice::tensor::testing
