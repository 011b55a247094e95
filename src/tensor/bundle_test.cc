#include "tensor/bundle.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "tensor/attributes.h"
#include "tensor/golden_file.h"
#include "tensor/object_header.h"

namespace sluice::tensor {
namespace {

using testing::between;
using ::testing::HasSubstr;
using testing::hex;
using testing::read_golden;

using Ints = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

const std::vector<NamedTensorSpec> kTwo = {{"last_hidden_state", {DType::kBF16, {2, 3}}},
                                           {"deepstack.0", {DType::kF8E5M2, {5}}}};
const Attributes kGrid = {{"image_grid_thw", Ints{1, 24, 32}}};

// The object of a plan, every byte that write_headers() does not own set to `fill`.
Bytes written(const BundlePlan& plan, std::byte fill = std::byte{0xEE}) {
  Bytes object(plan.object_bytes, fill);
  write_headers(plan, object);
  return object;
}

Error parse_error(std::span<const std::byte> object, std::span<const std::byte> attributes) {
  const auto parsed = parse_bundle(object, attributes);
  EXPECT_FALSE(parsed);
  return parsed ? Error{} : parsed.error();
}

TEST(Bundle, BytesAreThoseOfTheGoldenFiles) {
  const auto plan = plan_bundle(kTwo, kGrid).value();
  auto object = written(plan);
  for (std::size_t i = 0; i < 12; ++i) object[plan.tensors[0].data_offset + i] = std::byte(i);
  for (std::size_t i = 0; i < 5; ++i) object[plan.tensors[1].data_offset + i] = std::byte(100 + i);
  EXPECT_EQ(hex(object), hex(read_golden("bundle_object.hex")));
  EXPECT_EQ(hex(plan.attributes), hex(read_golden("bundle_attributes.hex")));
}

TEST(Bundle, ParseOfTheGoldenFilesIsThePlan) {
  const auto parsed =
      parse_bundle(read_golden("bundle_object.hex"), read_golden("bundle_attributes.hex"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, plan_bundle(kTwo, kGrid).value().tensors);
}

TEST(Bundle, ElementsBegin64ByteAlignedAndTheObjectEndsWithThem) {
  const auto plan = plan_bundle(kTwo).value();
  EXPECT_EQ(plan.tensors[0].data_offset, 320u);
  EXPECT_EQ(plan.tensors[0].data_bytes, 12u);
  EXPECT_EQ(plan.tensors[1].data_offset, 384u + 320u);
  EXPECT_EQ(plan.object_bytes, 384u + 320u + 5u);
}

TEST(Bundle, OneTensorCalledTensorIsAPlainTensorObject) {
  const std::vector<NamedTensorSpec> one = {{"tensor", {DType::kF32, {2, 3}}}};
  const auto plan = plan_bundle(one).value();
  EXPECT_TRUE(plan.attributes.empty());
  const auto object = written(plan);
  EXPECT_EQ(hex(std::span(object).first(kHeaderBytes)), hex(read_golden("header_f32_2x3.hex")));
  EXPECT_EQ(parse_bundle(object, {}), plan.tensors);
}

TEST(Bundle, OneTensorWithAnotherNameKeepsItsName) {
  const std::vector<NamedTensorSpec> one = {{"hidden", {DType::kF32, {2, 3}}}};
  const auto plan = plan_bundle(one).value();
  EXPECT_EQ(parse_bundle(written(plan), plan.attributes).value().at(0).name, "hidden");
}

TEST(Bundle, AForeignTensorObjectIsABundleOfOne) {
  const auto object = read_golden("mooncake_bf16_2x3.hex");
  const auto parsed = parse_bundle(object, {});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const TensorView expected{"tensor", {DType::kBF16, {2, 3}}, kHeaderBytes, 12};
  EXPECT_EQ(parsed->at(0), expected);
  const std::vector<NamedTensorSpec> same = {{"tensor", {DType::kBF16, {2, 3}}}};
  EXPECT_EQ(spec_digest(*parsed, {}), plan_bundle(same).value().spec_digest);
}

TEST(Bundle, HeadersAreWrittenWithoutTouchingTheElements) {
  const auto plan = plan_bundle(kTwo, kGrid).value();
  const auto object = written(plan, std::byte{0xAB});
  for (const auto& tensor : plan.tensors) {
    for (std::size_t i = 0; i < tensor.data_bytes; ++i) {
      EXPECT_EQ(object[tensor.data_offset + i], std::byte{0xAB});
    }
  }
  // Everything else is a function of the plan: equal inputs give equal objects whatever the memory
  // held before.
  auto other = written(plan, std::byte{0x11});
  for (const auto& tensor : plan.tensors) {
    std::memset(other.data() + tensor.data_offset, 0xAB, tensor.data_bytes);
  }
  EXPECT_EQ(hex(object), hex(other));
}

TEST(Bundle, PlanRefusesWhatCannotBeStoredNamingTheTensor) {
  const TensorSpec good{DType::kF32, {1}};
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const std::vector<std::pair<std::vector<NamedTensorSpec>, const char*>> bad = {
      {{}, "at least one tensor"},
      {{{"", good}}, "1..64 bytes"},
      {{{std::string(65, 'n'), good}}, "1..64 bytes"},
      {{{"\x80", good}}, "UTF-8"},
      {{{"a", good}, {"b", good}, {"a", good}}, "called 'a'"},
      {{{"a", {DType::kF32, {3, 0}}}}, "'a' has no elements"},
      {{{"a", good}, {"b", {DType::kF32, {0}}}}, "'b' has no elements"},
      {{{"a", {DType::kF32, {-1}}}}, "'a': dimension 0 is -1"},
      {{{"a", {static_cast<DType>(77), {1}}}}, "'a': dtype number 77"},
      {{{"a", {DType::kF64, {kHuge}}}}, "'a': the shape's byte size"},
      {{{"a", {DType::kU8, {kHuge * 2}}},
        {"b", {DType::kU8, {kHuge * 3}}},
        {"c", {DType::kU8, {kHuge * 3}}}},
       "'c': the object's size"},
  };
  for (const auto& [specs, reason] : bad) {
    const auto plan = plan_bundle(specs);
    ASSERT_FALSE(plan) << reason;
    EXPECT_THAT(plan.error().message, HasSubstr(reason));
  }
}

TEST(Bundle, SixtyFourTensorsAreStoredAndSixtyFiveRefused) {
  std::vector<NamedTensorSpec> specs;
  for (int i = 0; i < 64; ++i)
    specs.push_back({"level." + std::to_string(i), {DType::kU8, {i + 1}}});
  const auto plan = plan_bundle(specs);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(parse_bundle(written(*plan), plan->attributes), plan->tensors);
  specs.push_back({"one too many", {DType::kU8, {1}}});
  EXPECT_EQ(plan_bundle(specs).error().code, Code::kLimit);
}

TEST(Bundle, NamesThatDoNotFitTheAttributesAreRefused) {
  std::vector<NamedTensorSpec> specs;
  for (int i = 0; i < 64; ++i) {
    specs.push_back({std::string(60, 'n') + std::to_string(100 + i), {DType::kU8, {1}}});
  }
  EXPECT_EQ(plan_bundle(specs).error().code, Code::kLimit);
}

TEST(Bundle, ParseRefusesAnObjectThatIsCutOrTooLong) {
  for (const auto& specs : {kTwo, {{"tensor", {DType::kF32, {2, 3}}}}}) {
    const auto plan = plan_bundle(specs, kGrid).value();
    auto object = written(plan);
    for (std::size_t size = 0; size < object.size(); ++size) {
      EXPECT_FALSE(parse_bundle(std::span(object).first(size), plan.attributes)) << size;
    }
    object.push_back(std::byte{0});
    EXPECT_THAT(parse_error(object, plan.attributes).message, HasSubstr("bytes follow"));
  }
}

TEST(Bundle, ParseRefusesAListingThatDoesNotFitTheObject) {
  const auto plan = plan_bundle(kTwo).value();
  const auto object = written(plan);
  const auto error = [&object](const std::vector<ListingEntry>& listing) {
    return parse_error(object, encode_attributes({}, listing).value()).message;
  };
  EXPECT_THAT(error({{"a", 0}}), HasSubstr("bytes follow"));
  EXPECT_THAT(error({{"a", 0}, {"b", 320}}), HasSubstr("'b' does not begin"));
  EXPECT_THAT(error({{"a", 0}, {"b", 0}}), HasSubstr("'b' does not begin"));
  EXPECT_THAT(error({{"a", 64}}), HasSubstr("'a' does not begin"));
  EXPECT_THAT(error({{"b", 384}, {"a", 0}}), HasSubstr("'b' does not begin"));
  EXPECT_THAT(error({{"a", 0}, {"b", UINT64_MAX}}), HasSubstr("'b' does not begin"));
  EXPECT_THAT(error({{"a", 0}, {"b", 384}, {"c", 768}}), HasSubstr("'c' does not begin"));
  EXPECT_THAT(error({{"a", 0}, {"a", 384}}), HasSubstr("called 'a'"));
  EXPECT_THAT(error({{"tensor", 0}}), HasSubstr("without a listing"));
  EXPECT_THAT(error({{std::string(65, 'n'), 0}}), HasSubstr("over 64 bytes"));
  EXPECT_TRUE(parse_bundle(
      object, encode_attributes({}, std::vector<ListingEntry>{{"a", 0}, {"b", 384}}).value()));
}

TEST(Bundle, ParseRefusesTensorsWithoutElements) {
  EXPECT_THAT(parse_error(read_golden("mooncake_f32_0x4.hex"), {}).message,
              HasSubstr("no elements"));
}

TEST(Bundle, ParseRefusesAForeignOffsetInsideAListedBundle) {
  const std::vector<NamedTensorSpec> one = {{"hidden", {DType::kF32, {2, 3}}}};
  const auto plan = plan_bundle(one).value();
  const auto foreign = make_header(one[0].spec, 304).value();
  Bytes object(304 + 24);
  encode_header(foreign, std::span(object).first<kHeaderBytes>());
  EXPECT_THAT(parse_error(object, plan.attributes).message, HasSubstr("data_offset is not 320"));
}

// The promise of object_header_test, for every header of a bundle: a flipped bit is refused, or it
// names a dtype of the same element size, and then the spec digest differs.
TEST(Bundle, EveryFlippedHeaderBitIsRefusedOrChangesTheSpecDigest) {
  const auto plan = plan_bundle(kTwo, kGrid).value();
  const auto good = written(plan);
  std::size_t survivors = 0;
  for (const auto& tensor : plan.tensors) {
    const auto start = tensor.data_offset - kElementsOffset;
    for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
      auto object = good;
      object[start + bit / 8] ^= std::byte{1} << (bit % 8);
      const auto parsed = parse_bundle(object, plan.attributes);
      if (!parsed) continue;
      ++survivors;
      ASSERT_TRUE(bit / 8 >= 8 && bit / 8 < 12) << "bit " << bit;
      EXPECT_NE(spec_digest(*parsed, plan.attributes), plan.spec_digest) << "bit " << bit;
    }
  }
  // bfloat16 (12) has int16 (4) beside it; float8_e5m2 (14) has bool (10).
  EXPECT_EQ(survivors, 2u);
}

TEST(Bundle, SpecDigestTellsApartAllThatMakesASpec) {
  const TensorSpec spec{DType::kBF16, {6, 4}};
  const auto digest = [](const std::vector<NamedTensorSpec>& specs, const Attributes& user = {}) {
    return plan_bundle(specs, user).value().spec_digest;
  };
  const std::vector<std::uint64_t> digests = {
      digest({{"tensor", spec}}),
      digest({{"tensor", {DType::kF16, {6, 4}}}}),
      digest({{"tensor", {DType::kBF16, {4, 6}}}}),
      digest({{"tensor", {DType::kBF16, {24}}}}),
      digest({{"tensor", {DType::kBF16, {6, 4, 1}}}}),
      digest({{"other", spec}}),
      digest({{"tensor", spec}, {"other", spec}}),
      digest({{"other", spec}, {"tensor", spec}}),
      digest({{"tensor", spec}}, {{"a", Ints{1}}}),
      digest({{"tensor", spec}}, {{"a", Ints{2}}}),
      digest({{"tensor", spec}}, {{"b", Ints{1}}}),
      digest({{"tensor", spec}}, {{"a", "1"}}),
  };
  auto distinct = digests;
  std::ranges::sort(distinct);
  EXPECT_EQ(std::ranges::adjacent_find(distinct), distinct.end());
  EXPECT_EQ(digest({{"tensor", spec}}, {{"a", Ints{1}}, {"b", ""}}),
            digest({{"tensor", spec}}, {{"b", ""}, {"a", Ints{1}}}));
}

TEST(Bundle, SpecDigestNeverChangesBetweenVersions) {
  // Stored beside objects: another value would make every restart a conflict.
  EXPECT_EQ(plan_bundle(kTwo, kGrid).value().spec_digest, 0xE91C8883E219CDE3u);
}

TEST(Bundle, RandomBundlesRoundTripWithoutOverlap) {
  auto random = testing::seeded();
  for (int round = 0; round < 2000; ++round) {
    std::vector<NamedTensorSpec> specs;
    for (int i = between(random, 1, 6); i > 0; --i) {
      NamedTensorSpec named{"t" + std::to_string(i),
                            {static_cast<DType>(between(random, 0, 14)), {}}};
      for (int d = between(random, 0, 8); d > 0; --d)
        named.spec.shape.push_back(between(random, 1, 3));
      specs.push_back(named);
    }
    const auto plan = plan_bundle(specs, between(random, 0, 1) != 0 ? kGrid : Attributes{}).value();
    const auto object = written(plan);
    const auto parsed = parse_bundle(object, plan.attributes);
    ASSERT_TRUE(parsed) << parsed.error().message;
    ASSERT_EQ(*parsed, plan.tensors);
    ASSERT_EQ(spec_digest(*parsed, plan.attributes), plan.spec_digest);
    std::uint64_t end = 0;
    for (const auto& tensor : *parsed) {
      ASSERT_EQ(tensor.data_offset % kObjectAlign, 0u);
      ASSERT_GE(tensor.data_offset, end + kElementsOffset);
      end = tensor.data_offset + tensor.data_bytes;
    }
    ASSERT_EQ(end, object.size());
  }
}

}  // namespace
}  // namespace sluice::tensor
