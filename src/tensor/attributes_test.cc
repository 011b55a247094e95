#include "tensor/attributes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "tensor/golden_file.h"

namespace sluice::tensor {
namespace {

using testing::between;
using ::testing::HasSubstr;
using testing::hex;
using testing::read_golden;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<double>;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// An encoding with one entry of the given header bytes and body.
Bytes one_entry(int type, const std::string& name, const std::string& value) {
  Bytes bytes = bytes_of(
      {1, 0, 1, 0, type, static_cast<int>(name.size()), static_cast<int>(value.size()), 0});
  for (const char c : name + value) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

Error error_of(const Bytes& bytes) {
  const auto decoded = decode_attributes(bytes);
  EXPECT_FALSE(decoded) << hex(bytes);
  return decoded ? Error{} : decoded.error();
}

const Attributes kUser = {{"scale", Floats{0.5, -3.25}},
                          {"modality", "im\xC3\xA4ge"},
                          {"image_grid_thw", Ints{1, 24, -32}},
                          {"empty", ""}};

TEST(Attributes, BytesAreThoseOfTheGoldenFile) {
  const auto encoded = encode_attributes(kUser);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(hex(*encoded), hex(read_golden("attributes_user.hex")));
}

TEST(Attributes, DecodeGivesBackEveryValueByName) {
  auto sorted = kUser;
  std::ranges::sort(sorted, {}, &Attribute::name);
  EXPECT_EQ(decode_attributes(encode_attributes(kUser).value()), sorted);
}

TEST(Attributes, TheOrderGivenDoesNotChangeTheBytes) {
  auto order = kUser;
  std::ranges::sort(order, {}, &Attribute::name);
  const auto expected = encode_attributes(order).value();
  do {
    EXPECT_EQ(encode_attributes(order).value(), expected);
  } while (std::ranges::next_permutation(order, {}, &Attribute::name).found);
}

TEST(Attributes, NoneAtAllAreNoBytes) {
  EXPECT_TRUE(encode_attributes({}).value().empty());
  EXPECT_TRUE(decode_attributes({}).value().empty());
  EXPECT_TRUE(decode_listing({}).value().empty());
}

TEST(Attributes, EveryBitOfAFloatSurvives) {
  const Floats odd = {-0.0, std::bit_cast<double>(0x7FF4DEADBEEF0001u), INFINITY, 5e-324};
  const auto back = decode_attributes(encode_attributes({{"f", odd}}).value()).value();
  const auto& values = std::get<Floats>(back.at(0).value);
  for (std::size_t i = 0; i < odd.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(values.at(i)), std::bit_cast<std::uint64_t>(odd[i]));
  }
}

TEST(Attributes, TheListingIsCarriedButNeverShownToUsers) {
  const std::vector<ListingEntry> listing = {{"last_hidden_state", 0}, {"deepstack.0", 1 << 20}};
  const auto encoded = encode_attributes(kUser, listing).value();
  EXPECT_EQ(decode_listing(encoded).value(), listing);
  EXPECT_EQ(decode_attributes(encoded).value().size(), kUser.size());
  EXPECT_TRUE(decode_attributes(encode_attributes({}, listing).value()).value().empty());
  EXPECT_EQ(user_attribute_bytes(encoded).value(),
            user_attribute_bytes(encode_attributes(kUser).value()).value());
}

TEST(Attributes, EncodingRefusesBadNamesAndTextNamingThem) {
  const std::vector<std::pair<Attributes, const char*>> bad = {
      {{{"", Ints{}}}, "1..64 bytes"},
      {{{std::string(65, 'n'), Ints{}}}, "1..64 bytes"},
      {{{"\xFF", Ints{}}}, "UTF-8"},
      {{{"sluice.tensors", Ints{}}}, "'sluice.tensors': names that begin with 'sluice.'"},
      {{{"sluice.", Ints{}}}, "reserved"},
      {{{"text", "\xC3"}}, "'text': the text is not UTF-8"},
      {{{"b", Ints{1}}, {"a", Ints{}}, {"b", Floats{}}}, "'b' is given twice"},
  };
  for (const auto& [attributes, reason] : bad) {
    const auto encoded = encode_attributes(attributes);
    ASSERT_FALSE(encoded) << reason;
    EXPECT_EQ(encoded.error().code, Code::kInvalidArgument);
    EXPECT_THAT(encoded.error().message, HasSubstr(reason));
  }
  EXPECT_TRUE(encode_attributes({{std::string(64, 'n'), Ints{}}, {"sluice", ""}}));
}

TEST(Attributes, TheLimitIs4096BytesEncodedAndNotOneMore) {
  // 4 for the set, 4 for the entry, 1 for its name.
  const auto full = encode_attributes({{"t", std::string(kAttributesBytesMax - 9, 'x')}});
  ASSERT_TRUE(full);
  EXPECT_EQ(full->size(), kAttributesBytesMax);
  EXPECT_TRUE(decode_attributes(*full));

  const auto over = encode_attributes({{"t", std::string(kAttributesBytesMax - 8, 'x')}});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::kLimit);
  EXPECT_THAT(over.error().message, HasSubstr("'t' is the first that does not fit"));
  EXPECT_FALSE(encode_attributes({{"t", Ints(1 << 20)}}));
  auto longer = *full;
  longer.push_back(std::byte{0});
  EXPECT_THAT(error_of(longer).message, HasSubstr("4096"));
}

TEST(Attributes, EachMalformedEncodingHasItsOwnReason) {
  const std::vector<std::pair<Bytes, const char*>> bad = {
      {bytes_of({1}), "shorter than"},
      {bytes_of({1, 0, 1}), "shorter than"},
      {bytes_of({1, 0, 0, 0}), "no bytes at all"},
      {bytes_of({1, 0, 1, 0}), "beyond the end"},
      {bytes_of({1, 0, 1, 0, 3, 1, 0, 0}), "beyond the end"},
      {bytes_of({1, 0, 1, 0, 3, 1, 255, 255, 'a'}), "beyond the end"},
      {bytes_of({1, 0, 2, 0, 3, 1, 0, 0, 'a'}), "beyond the end"},
      {one_entry(3, "", "x"), "a name is empty"},
      {one_entry(3, std::string(65, 'n'), "x"), "a name is empty, over 64"},
      {one_entry(3, "\xC3", "x"), "not UTF-8"},
      {one_entry(3, "a", "\xC3"), "a text is not UTF-8"},
      {one_entry(0, "a", ""), "type is unknown"},
      {one_entry(5, "a", ""), "type is unknown"},
      {one_entry(1, "a", "1234567"), "not whole"},
      {one_entry(2, "a", "123456789"), "not whole"},
      {one_entry(4, "a", "12345678\1x"), "reserved name"},
      {one_entry(3, "sluice.tensors", ""), "reserved name"},
      {one_entry(4, "sluice.other", "12345678\1x"), "reserved name"},
      {one_entry(4, "sluice.tensors", ""), "list of tensors"},
      {one_entry(4, "sluice.tensors", "12345678"), "list of tensors"},
      {one_entry(4, "sluice.tensors", "12345678\2x"), "list of tensors"},
      {one_entry(4, "sluice.tensors", std::string("12345678\0", 9)), "list of tensors"},
      {one_entry(4, "sluice.tensors", "12345678\1\xFF"), "list of tensors"},
      {bytes_of({1, 0, 2, 0, 3, 1, 0, 0, 'a', 3, 1, 0, 0, 'a'}), "occurs twice"},
      {bytes_of({1, 0, 2, 0, 3, 1, 0, 0, 'b', 3, 1, 0, 0, 'a'}), "do not ascend"},
      {bytes_of({1, 0, 1, 0, 3, 1, 0, 0, 'a', 0}), "bytes follow"},
  };
  for (const auto& [bytes, reason] : bad) {
    const auto error = error_of(bytes);
    EXPECT_EQ(error.code, Code::kCorrupt) << reason;
    EXPECT_EQ(error.drop, Drop::kObject) << reason;
    EXPECT_THAT(error.message, HasSubstr(reason)) << hex(bytes);
    EXPECT_FALSE(decode_listing(bytes)) << reason;
    EXPECT_FALSE(user_attribute_bytes(bytes)) << reason;
  }
  EXPECT_EQ(error_of(bytes_of({2, 0, 1, 0, 3, 1, 0, 0, 'a'})).code, Code::kVersion);
}

TEST(Attributes, EveryPrefixOfAnEncodingIsRefused) {
  const auto encoded = encode_attributes(kUser, std::vector<ListingEntry>{{"x", 7}}).value();
  for (std::size_t size = 1; size < encoded.size(); ++size) {
    const Bytes cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decode_attributes(cut)) << size;
  }
}

Attribute random_attribute(std::mt19937_64& random) {
  Attribute attribute;
  for (int i = between(random, 1, 6); i > 0; --i)
    attribute.name += "ab\xC2\xB5"[between(random, 0, 1)];
  switch (between(random, 0, 2)) {
    case 0:
      attribute.value = Ints(between<std::size_t>(random, 0, 5),
                             between<std::int64_t>(random, INT64_MIN, INT64_MAX));
      break;
    case 1:
      attribute.value = Floats(between<std::size_t>(random, 0, 5), 1.0 / between(random, 1, 100));
      break;
    default:
      attribute.value = std::string(between<std::size_t>(random, 0, 40), 't');
  }
  return attribute;
}

TEST(Attributes, RandomSetsRoundTripAndDifferentSetsEncodeDifferently) {
  auto random = testing::seeded();
  for (int round = 0; round < 3000; ++round) {
    Attributes given;
    for (int i = between(random, 0, 8); i > 0; --i) {
      const auto next = random_attribute(random);
      if (std::ranges::find(given, next.name, &Attribute::name) == given.end())
        given.push_back(next);
    }
    const auto encoded = encode_attributes(given);
    ASSERT_TRUE(encoded) << encoded.error().message;
    auto sorted = given;
    std::ranges::sort(sorted, {}, &Attribute::name);
    ASSERT_EQ(decode_attributes(*encoded), sorted);
    if (given.empty()) continue;
    auto other = given;
    other.back().name += "c";
    ASSERT_NE(encode_attributes(other).value(), *encoded);
  }
}

TEST(Attributes, DamagedBytesAreRefusedOrStillCanonical) {
  auto random = testing::seeded();
  const auto good =
      encode_attributes(kUser, std::vector<ListingEntry>{{"x", 7}, {"y", 640}}).value();
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    for (int i = between(random, 1, 3); i > 0; --i) {
      bytes[between<std::size_t>(random, 0, bytes.size() - 1)] ^= std::byte{1}
                                                                  << between(random, 0, 7);
    }
    const auto user = decode_attributes(bytes);
    if (!user) continue;
    const auto again = encode_attributes(*user, decode_listing(bytes).value());
    ASSERT_TRUE(again);
    ASSERT_EQ(hex(*again), hex(bytes));
  }
}

}  // namespace
}  // namespace sluice::tensor
