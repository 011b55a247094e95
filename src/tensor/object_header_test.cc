#include "tensor/object_header.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/golden_file.h"

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

// Counts what this program allocates, for the tests that promise none. The compiler does not see
// that both halves of the pair are replaced.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace sluice::tensor {
namespace {

using testing::hex;
using testing::read_golden;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

std::array<std::byte, kHeaderBytes> encoded(const TensorSpec& spec,
                                            std::uint64_t data_offset = kElementsOffset) {
  std::array<std::byte, kHeaderBytes> bytes{};
  encode_header(make_header(spec, data_offset).value(), bytes);
  return bytes;
}

template <class T>
std::array<std::byte, kHeaderBytes> with(std::array<std::byte, kHeaderBytes> bytes,
                                         std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
  return bytes;
}

std::optional<HeaderFault> fault(std::span<const std::byte> bytes,
                                 std::uint64_t object_bytes = kPlenty) {
  const auto header = decode_header(bytes, object_bytes);
  return header ? std::nullopt : std::optional(header.error());
}

// Specs that use every dtype and every number of dimensions.
std::vector<TensorSpec> all_kinds_of_specs() {
  std::vector<TensorSpec> specs;
  for (std::int32_t number = 0; number < 15; ++number) {
    TensorSpec spec{.dtype = static_cast<DType>(number), .shape = {}};
    for (int ndim = 0; ndim <= kDimsMax; ++ndim) {
      specs.push_back(spec);
      spec.shape.push_back(ndim + 2);
    }
  }
  specs.push_back({.dtype = DType::kF32, .shape = {0, 4}});
  return specs;
}

TEST(ObjectHeader, BytesAreThoseOfTheGoldenFiles) {
  EXPECT_EQ(hex(encoded({DType::kF32, {2, 3}})), hex(read_golden("header_f32_2x3.hex")));
  EXPECT_EQ(hex(encoded({DType::kI64, {}})), hex(read_golden("header_i64_scalar.hex")));
  EXPECT_EQ(hex(encoded({DType::kBF16, {1, 2, 3, 4, 5, 6, 7, 8}})),
            hex(read_golden("header_bf16_8d.hex")));
}

TEST(ObjectHeader, ObjectsOfMooncakesOwnClientAreReadAndWrittenAlike) {
  const std::map<std::string, TensorSpec> objects = {
      {"mooncake_bf16_2x3.hex", {DType::kBF16, {2, 3}}},
      {"mooncake_f8_e4m3_5.hex", {DType::kF8E4M3, {5}}},
      {"mooncake_i64_scalar.hex", {DType::kI64, {}}},
      {"mooncake_u8_8d.hex", {DType::kU8, {2, 1, 2, 1, 2, 1, 2, 1}}},
      {"mooncake_f32_0x4.hex", {DType::kF32, {0, 4}}},
  };
  for (const auto& [file, spec] : objects) {
    const auto object = read_golden(file);
    const auto header = decode_header(object);
    ASSERT_TRUE(header) << file << ": " << describe(header.error());
    EXPECT_EQ(spec_of(*header), spec) << file;
    EXPECT_EQ(header->data_offset, kHeaderBytes) << file;
    EXPECT_EQ(header->data_offset + header->data_bytes, object.size()) << file;
    EXPECT_EQ(hex(encoded(spec, kHeaderBytes)), hex(std::span(object).first(kHeaderBytes))) << file;
  }
}

TEST(ObjectHeader, DecodeIsTheInverseOfEncodeForEveryDTypeAndDimCount) {
  for (const auto& spec : all_kinds_of_specs()) {
    const auto header = make_header(spec).value();
    const auto back = decode_header(encoded(spec), kElementsOffset + header.data_bytes);
    ASSERT_TRUE(back) << describe(back.error());
    EXPECT_EQ(*back, header);
    EXPECT_EQ(spec_of(*back), spec);
  }
}

TEST(ObjectHeader, EveryRefusalHasItsOwnReason) {
  const auto good = encoded({DType::kF32, {2, 3}});
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const auto shaped = [](std::int64_t a, std::int64_t b) {
    auto bytes = encoded({DType::kF32, {2, 3}});
    for (const std::size_t at : {std::size_t{40}, std::size_t{104}}) {
      bytes = with(with(bytes, at, a), at + 8, b);
    }
    return bytes;
  };
  ASSERT_EQ(fault(good, 344), std::nullopt);

  EXPECT_EQ(fault(std::span(good).first(303)), HeaderFault::kShortBuffer);
  EXPECT_EQ(fault(good, 303), HeaderFault::kShortBuffer);
  EXPECT_EQ(fault({}), HeaderFault::kShortBuffer);
  EXPECT_EQ(fault(with(good, 0, 0x4D4F4F4Fu)), HeaderFault::kMagic);
  EXPECT_EQ(fault(with(good, 4, std::uint16_t{2})), HeaderFault::kVersion);
  EXPECT_EQ(fault(with(good, 4, std::uint16_t{0})), HeaderFault::kVersion);
  EXPECT_EQ(fault(with(good, 6, std::uint16_t{320})), HeaderFault::kHeaderSize);
  EXPECT_EQ(fault(with(good, 8, 15)), HeaderFault::kDType);
  EXPECT_EQ(fault(with(good, 8, -1)), HeaderFault::kDType);
  EXPECT_EQ(fault(with(good, 12, 9)), HeaderFault::kDimCount);
  EXPECT_EQ(fault(with(good, 12, -1)), HeaderFault::kDimCount);
  EXPECT_EQ(fault(with(good, 12, std::numeric_limits<int>::min())), HeaderFault::kDimCount);
  EXPECT_EQ(fault(with(good, 16, 1u)), HeaderFault::kShardLayout);
  EXPECT_EQ(fault(with(good, 16, 2u)), HeaderFault::kLayoutKind);
  EXPECT_EQ(fault(with(good, 20, 1u)), HeaderFault::kReserved);
  EXPECT_EQ(fault(with(good, 172, 1u)), HeaderFault::kReserved);
  EXPECT_EQ(fault(with(good, 303, std::byte{1})), HeaderFault::kReserved);
  EXPECT_EQ(fault(with(good, 168, 1u)), HeaderFault::kAxisCount);
  EXPECT_EQ(fault(with(good, 168, 5u)), HeaderFault::kAxisCount);
  EXPECT_EQ(fault(shaped(-2, -3)), HeaderFault::kNegativeShape);
  EXPECT_EQ(fault(with(good, 12, 3)), HeaderFault::kNegativeShape);
  EXPECT_EQ(fault(with(good, 12, 1)), HeaderFault::kUnusedDim);
  EXPECT_EQ(fault(with(good, 96, std::int64_t{0})), HeaderFault::kUnusedDim);
  EXPECT_EQ(fault(with(good, 160, std::int64_t{0})), HeaderFault::kUnusedDim);
  EXPECT_EQ(fault(with(good, 40, std::int64_t{3})), HeaderFault::kShapeMismatch);
  EXPECT_EQ(fault(shaped(kHuge, kHuge)), HeaderFault::kShapeOverflow);
  EXPECT_EQ(fault(shaped(kHuge, 1)), HeaderFault::kShapeOverflow);
  EXPECT_EQ(fault(shaped(2, 4)), HeaderFault::kDataBytes);
  EXPECT_EQ(fault(with(good, 32, std::uint64_t{25})), HeaderFault::kDataBytes);
  EXPECT_EQ(fault(with(good, 24, std::uint64_t{303})), HeaderFault::kDataOffset);
  EXPECT_EQ(fault(with(good, 24, std::uint64_t{0})), HeaderFault::kDataOffset);
  EXPECT_EQ(fault(good, 319), HeaderFault::kDataOffset);
  EXPECT_EQ(fault(with(good, 24, UINT64_MAX)), HeaderFault::kDataOffset);
  EXPECT_EQ(fault(good, 343), HeaderFault::kPayloadBeyondObject);
  EXPECT_EQ(fault(good, 320), HeaderFault::kPayloadBeyondObject);
  // Sizes whose sum with the offset wraps around to something small.
  auto wraps = encoded({DType::kF64, {1}});
  for (const std::size_t at : {std::size_t{40}, std::size_t{104}}) {
    wraps = with(wraps, at, (std::int64_t{1} << 61) - 1);
  }
  EXPECT_EQ(fault(with(wraps, 32, UINT64_MAX - 7)), HeaderFault::kPayloadBeyondObject);

  std::set<std::string_view> reasons;
  for (int i = 0; i <= static_cast<int>(HeaderFault::kAxisCount); ++i) {
    reasons.insert(describe(static_cast<HeaderFault>(i)));
  }
  EXPECT_EQ(reasons.size(), static_cast<std::size_t>(HeaderFault::kAxisCount) + 1);
}

TEST(ObjectHeader, AnErrorSaysWhatIsUnknownAndWhatIsNotBuilt) {
  EXPECT_EQ(to_error(HeaderFault::kVersion).code, Code::kVersion);
  EXPECT_EQ(to_error(HeaderFault::kShardLayout).code, Code::kUnsupported);
  EXPECT_EQ(to_error(HeaderFault::kMagic).code, Code::kCorrupt);
  EXPECT_EQ(to_error(HeaderFault::kMagic).drop, Drop::kObject);
}

// What is promised for one damaged bit. Where the object ends with the elements, as in everything
// that is stored, each of the 2,432 bits is refused, except bits of the dtype that name another
// dtype of the same element size. Those decode to the other dtype, with everything else as it was.
// Only the digest of the chunk that holds the header, or a comparison with the expected spec, can
// tell them.
TEST(ObjectHeader, EachOf2432FlippedBitsIsRefusedUnlessItNamesAnEquallyWideDType) {
  std::size_t survivors = 0;
  for (const auto& spec : all_kinds_of_specs()) {
    const auto good = encoded(spec);
    const auto original = make_header(spec).value();
    const auto object_bytes = kElementsOffset + original.data_bytes;
    for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
      auto bytes = good;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      const auto header = decode_header(bytes, object_bytes);
      const bool in_dtype = bit / 8 >= 8 && bit / 8 < 12;
      const auto flipped_dtype = static_cast<DType>(static_cast<std::int32_t>(
          static_cast<std::uint32_t>(original.dtype) ^ (in_dtype ? 1u << (bit - 64) : 0u)));
      // With no elements at all, every known dtype has the same zero bytes.
      const bool same_bytes = size_of(flipped_dtype) == size_of(original.dtype) ||
                              (original.data_bytes == 0 && size_of(flipped_dtype) != 0);
      if (!in_dtype || !same_bytes) {
        ASSERT_FALSE(header) << "bit " << bit;
        continue;
      }
      auto expected = original;
      expected.dtype = flipped_dtype;
      ASSERT_TRUE(header) << "bit " << bit;
      EXPECT_EQ(*header, expected) << "bit " << bit;
      ++survivors;
    }
  }
  EXPECT_GT(survivors, 0u);
}

// With room behind the elements a moved data_offset can still be inside the object. No bit is ever
// ignored, though: what is not refused differs from the original and encodes back to the damaged
// bytes.
TEST(ObjectHeader, NoFlippedBitIsInvisibleEvenWithRoomBehindTheElements) {
  for (const auto& spec : all_kinds_of_specs()) {
    const auto good = encoded(spec);
    const auto original = make_header(spec).value();
    for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
      auto bytes = good;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      const auto header = decode_header(bytes, kPlenty);
      if (!header) continue;
      EXPECT_NE(*header, original) << "bit " << bit;
      std::array<std::byte, kHeaderBytes> back{};
      encode_header(*header, back);
      ASSERT_EQ(hex(back), hex(bytes)) << "bit " << bit;
    }
  }
}

TEST(ObjectHeader, DecodingAllocatesNothingAndReadsOnlyTheHeader) {
  // A heap block of exactly the header, so that the address sanitizer sees a read beyond it.
  const auto good = encoded({DType::kF32, {2, 3}});
  const std::vector<std::byte> exact(good.begin(), good.end());
  const auto before = allocations;
  const auto header = decode_header(exact, kPlenty);
  const auto refused = decode_header(std::span(exact).first(10), kPlenty);
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(header);
  EXPECT_FALSE(refused);
}

TEST(ObjectHeader, MakeRefusesWhatCannotBeStored) {
  EXPECT_FALSE(make_header({DType::kF32, {-1}}));
  EXPECT_FALSE(make_header({static_cast<DType>(99), {1}}));
  EXPECT_FALSE(make_header({DType::kF32, {1}}, 303));
  EXPECT_FALSE(make_header({DType::kF32, {1}}, UINT64_MAX - 3));
}

}  // namespace
}  // namespace sluice::tensor
