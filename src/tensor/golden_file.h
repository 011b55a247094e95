// golden_file.h: test helpers: golden files in hex text, and the seed of a random test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::tensor::testing {

// Pairs of hex digits; lines that begin with '#' are comments. Throws when the file is missing or
// empty.
inline std::vector<std::byte> read_golden(const std::string& name) {
  std::ifstream file(std::string(SLUICE_TENSOR_TESTDATA) + "/" + name);
  std::vector<std::byte> bytes;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoul(line.substr(i, 2), nullptr, 16)));
    }
  }
  if (bytes.empty()) throw std::runtime_error("no golden bytes in " + name);
  return bytes;
}

// Same text form as the files, 32 bytes a line: what a failed comparison shows.
inline std::string hex(std::span<const std::byte> bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += kHex[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += kHex[std::to_integer<unsigned>(bytes[i]) & 0xFu];
    if (i % 32 == 31) text += '\n';
  }
  return text;
}

// A generator whose seed is printed, so that a failure can be repeated with
// SLUICE_TEST_SEED=<number>.
std::mt19937_64 seeded();

// A number in [low, high].
template <class T>
T between(std::mt19937_64& random, T low, T high) {
  return std::uniform_int_distribution<T>(low, high)(random);
}

}  // namespace sluice::tensor::testing
