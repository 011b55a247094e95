#include "tensor/tensor_spec.h"

#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(DType, NumbersNamesAndSizesAreTheFormats) {
  struct Row {
    std::int32_t number;
    const char* name;
    std::size_t bytes;
  };
  const Row rows[] = {
      {0, "float32", 4},   {1, "float64", 8},      {2, "int8", 1},         {3, "uint8", 1},
      {4, "int16", 2},     {5, "uint16", 2},       {6, "int32", 4},        {7, "uint32", 4},
      {8, "int64", 8},     {9, "uint64", 8},       {10, "bool", 1},        {11, "float16", 2},
      {12, "bfloat16", 2}, {13, "float8_e4m3", 1}, {14, "float8_e5m2", 1},
  };
  for (const auto& row : rows) {
    const auto dtype = static_cast<DType>(row.number);
    EXPECT_EQ(name(dtype), row.name);
    EXPECT_EQ(size_of(dtype), row.bytes) << row.name;
    EXPECT_EQ(dtype_from_name(row.name), dtype) << row.name;
  }
  EXPECT_EQ(dtype_from_name("float8_e4m3fn"), DType::kF8E4M3);
}

TEST(DType, ValuesOutsideTheEnumHaveNoSize) {
  for (const int number : {-1, 15, 1 << 20, std::numeric_limits<int>::min()}) {
    EXPECT_EQ(size_of(static_cast<DType>(number)), 0u);
    EXPECT_FALSE(tensor::known(static_cast<DType>(number)));
    EXPECT_EQ(name(static_cast<DType>(number)), "unknown");
  }
}

TEST(DType, AnUnknownNameIsRefusedWithTheKnownOnes) {
  for (const char* text : {"", "Float32", "float", "bfloat16 ", "float8_e4m3fnuz", "complex64"}) {
    const auto dtype = dtype_from_name(text);
    ASSERT_FALSE(dtype) << text;
    EXPECT_EQ(dtype.error().code, Code::kInvalidArgument);
    EXPECT_THAT(dtype.error().message, HasSubstr("bfloat16, float8_e4m3"));
  }
}

TEST(TensorSpec, ByteSizeIsShapeTimesElement) {
  EXPECT_EQ(byte_size({DType::kBF16, {1000, 3584}}), 7'168'000u);
  EXPECT_EQ(byte_size({DType::kF64, {}}), 8u);
  EXPECT_EQ(byte_size({DType::kU8, {1, 2, 3, 4, 5, 6, 7, 8}}), 40'320u);
  EXPECT_EQ(byte_size({DType::kF32, {5, 0, 7}}), 0u);
}

TEST(TensorSpec, AnOverflowIsRefusedInAnyOrderOfTheDimensions) {
  constexpr std::int64_t kBig = std::int64_t{1} << 32;
  EXPECT_EQ(byte_size({DType::kU8, {kBig, kBig - 1}}), 0xFFFFFFFF00000000u);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{
           {kBig, kBig}, {kBig, kBig, 0}, {0, kBig, kBig}, {kBig, 0, kBig}}) {
    const auto bytes = byte_size({DType::kU8, shape});
    ASSERT_FALSE(bytes);
    EXPECT_THAT(bytes.error().message, HasSubstr("64 bits"));
  }
  EXPECT_FALSE(byte_size({DType::kF64, {std::numeric_limits<std::int64_t>::max()}}));
}

TEST(TensorSpec, EachBadSpecHasItsOwnReason) {
  const std::vector<std::pair<TensorSpec, const char*>> bad = {
      {{static_cast<DType>(15), {1}}, "dtype number 15"},
      {{DType::kF32, {1, 1, 1, 1, 1, 1, 1, 1, 1}}, "at most 8 dimensions, not 9"},
      {{DType::kF32, {2, -1}}, "dimension 1 is -1"},
  };
  for (const auto& [spec, reason] : bad) {
    const auto valid = tensor::validate(spec);
    ASSERT_FALSE(valid) << reason;
    EXPECT_EQ(valid.error().code, Code::kInvalidArgument);
    EXPECT_THAT(valid.error().message, HasSubstr(reason));
  }
}

}  // namespace
}  // namespace sluice
