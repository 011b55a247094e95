#include "npy.h"

#include <random>

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string file_with(std::string header, std::size_t data_bytes, char major = 1) {
  std::string out("\x93NUMPY");
  out += major;
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  if (major > 1) out += std::string(2, '\0');
  return out + header + std::string(data_bytes, 'x');
}

Result<FileTensor> parse(const std::string& file) {
  return parse_npy(bytes_of(file), file.size());
}

TEST(Npy, WhatIsWrittenIsReadBackForEveryDtypeAndRank) {
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32,
        DType::kU32, DType::kI64, DType::kU64, DType::kBool, DType::kF16}) {
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{}, {3}, {2, 3}, {0}, {1, 2, 3, 4}}) {
      const TensorSpec spec{dtype, shape};
      const std::string file = npy_header(spec).value() + std::string(byte_size(spec).value(), 'x');
      const auto tensor = parse(file);
      ASSERT_TRUE(tensor.has_value()) << tensor.error().message;
      EXPECT_EQ(tensor->spec, spec);
      EXPECT_EQ(tensor->offset % 64, 0u);
      EXPECT_TRUE(looks_like_npy(bytes_of(file)));
    }
  }
}

TEST(Npy, HeadersOfAllThreeFormatsAreRead) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
  EXPECT_TRUE(parse(file_with(header, 16, 1)).has_value());
  EXPECT_TRUE(parse(file_with(header, 16, 2)).has_value());
  EXPECT_TRUE(parse(file_with(header, 16, 3)).has_value());
  EXPECT_FALSE(parse(file_with(header, 16, 4)).has_value());
}

TEST(Npy, PicklesAreRefusedAndSaySo) {
  const auto tensor =
      parse(file_with("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8));
  ASSERT_FALSE(tensor.has_value());
  EXPECT_NE(tensor.error().message.find("pickle"), std::string::npos);
}

TEST(Npy, EverythingElseThatIsNotPlainDataIsRefused) {
  const std::vector<std::string> headers = {
      "",
      "{",
      "{}",
      "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, "
      "9223372036854775807), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,4), }",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'extra': 1, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), } trailing",
      "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }",
      "__import__('os').system('true')",
  };
  for (const std::string& header : headers) {
    const auto tensor = parse(file_with(header, 16));
    ASSERT_FALSE(tensor.has_value()) << header;
    EXPECT_EQ(tensor.error().code, Code::kInvalidArgument);
  }
}

TEST(Npy, TheFilesLengthMustBeExactlyWhatTheShapeNeeds) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
  EXPECT_FALSE(parse(file_with(header, 15)).has_value());
  EXPECT_FALSE(parse(file_with(header, 17)).has_value());
  EXPECT_TRUE(parse(file_with(header, 16)).has_value());
}

TEST(Npy, EveryTruncationAndEveryChangedByteIsAnsweredWithoutReadingOutside) {
  const std::string good =
      file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", 16);
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::string part = good.substr(0, length);
    EXPECT_FALSE(parse(part).has_value()) << length;
  }
  const std::size_t header_end = good.size() - 16;
  for (std::size_t i = 0; i < header_end; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = good;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      const auto tensor = parse(changed);
      if (tensor) {
        EXPECT_EQ(tensor->bytes, 16u);
        EXPECT_LE(tensor->offset + tensor->bytes, changed.size());
      }
    }
  }
}

TEST(Npy, DtypesThatNumpyLacksAreRefusedWithTheWayOut) {
  const auto header = npy_header({DType::kBF16, {2}});
  ASSERT_FALSE(header.has_value());
  EXPECT_NE(header.error().message.find("safetensors"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
