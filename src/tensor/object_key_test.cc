#include <set>
#include <string>
#include <unordered_map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/object_key.h>

#include "base/limits.h"
#include "tensor/golden_file.h"

namespace sluice {
namespace {

using tensor::testing::between;
using ::testing::HasSubstr;

KeyFields fields() {
  KeyFields fields;
  fields.model = "Qwen/Qwen3-VL-8B";
  fields.revision = "main";
  fields.encoder = "e1f2";
  fields.dtype = "bfloat16";
  fields.id = "abc";
  return fields;
}

KeyFields with(std::string KeyFields::* field, std::string value) {
  auto changed = fields();
  changed.*field = std::move(value);
  return changed;
}

const std::string kText =
    "sluice1@tenant:default@kind:encoder_output@model:Qwen%2FQwen3-VL-8B@revision:main"
    "@encoder:e1f2@dtype:bfloat16@layout:replicated@id:abc";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ObjectKey, TextIsTheFormatsWordForWord) {
  const auto key = ObjectKey::make(fields()).value();
  EXPECT_EQ(key.text(), kText);
  EXPECT_EQ(key.id_text(), "abc");
  EXPECT_EQ(key.prefix_text(), kText.substr(0, kText.size() - 7));
  auto with_all = fields();
  with_all.prefix = "staging eu";
  with_all.tenant = "Zo\xC3\xAB@home";
  with_all.kind = ObjectKind::kKvPage;
  with_all.id = std::string("a%b:c\0~", 7);
  EXPECT_EQ(ObjectKey::make(with_all).value().text(),
            "staging%20eu@sluice1@tenant:Zo%C3%AB%40home@kind:kv_page@model:Qwen%2FQwen3-VL-8B"
            "@revision:main@encoder:e1f2@dtype:bfloat16@layout:replicated@id:a%25b%3Ac%00~");
}

TEST(ObjectKey, ParseIsTheInverseOfFormat) {
  const auto key = ObjectKey::parse(kText);
  ASSERT_TRUE(key) << key.error().message;
  EXPECT_EQ(key->fields(), fields());
  EXPECT_EQ(*key, ObjectKey::make(fields()).value());
  EXPECT_EQ(key->id_text(), "abc");
  EXPECT_EQ(key->kind(), ObjectKind::kEncoderOutput);
}

TEST(ObjectKey, APrefixThatLooksLikeTheFormatIsStillAPrefix) {
  for (const char* prefix : {"sluice1", "sluice2", "tenant:x", "id:y", "a@b"}) {
    const auto key = ObjectKey::make(with(&KeyFields::prefix, prefix)).value();
    const auto back = ObjectKey::parse(key.text());
    ASSERT_TRUE(back) << key.text() << ": " << back.error().message;
    EXPECT_EQ(back->fields().prefix, prefix);
  }
}

TEST(ObjectKey, EveryEmptyRequiredFieldIsRefusedByName) {
  const std::vector<std::pair<std::string KeyFields::*, const char*>> required = {
      {&KeyFields::tenant, "tenant"},
      {&KeyFields::model, "model"},
      {&KeyFields::revision, "revision"},
      {&KeyFields::encoder, "encoder"},
      {&KeyFields::dtype, "dtype"},
      {&KeyFields::layout, "layout"},
      {&KeyFields::id, "id"}};
  for (const auto& [field, label] : required) {
    const auto key = ObjectKey::make(with(field, ""));
    ASSERT_FALSE(key) << label;
    EXPECT_EQ(key.error().code, Code::kInvalidArgument);
    EXPECT_THAT(key.error().message, HasSubstr(std::string(label) + " must not be empty"));
  }
}

TEST(ObjectKey, ReservedLayoutsAreRefusedAsNotBuilt) {
  for (const char* layout : {"rank_sharded", "segmented"}) {
    EXPECT_EQ(ObjectKey::make(with(&KeyFields::layout, layout)).error().code, Code::kUnsupported);
    EXPECT_EQ(ObjectKey::parse(replaced(kText, "replicated", layout)).error().code,
              Code::kUnsupported);
  }
  EXPECT_EQ(ObjectKey::make(with(&KeyFields::layout, "diagonal")).error().code,
            Code::kInvalidArgument);
}

TEST(ObjectKey, AReplicatedObjectHasNoParallelSize) {
  EXPECT_THAT(ObjectKey::make(with(&KeyFields::parallel, "tp2")).error().message,
              HasSubstr("parallel belongs to sharded layouts"));
  EXPECT_THAT(ObjectKey::parse(replaced(kText, "@id:", "@parallel:tp2@id:")).error().message,
              HasSubstr("parallel belongs to sharded layouts"));
  EXPECT_FALSE(ObjectKey::parse(replaced(kText, "@id:", "@parallel:@id:")));
}

TEST(ObjectKey, UnknownKindsAreRefused) {
  auto bad = fields();
  bad.kind = static_cast<ObjectKind>(5);
  EXPECT_FALSE(ObjectKey::make(bad));
  EXPECT_THAT(ObjectKey::parse(replaced(kText, "encoder_output", "decoder_output")).error().message,
              HasSubstr("known are encoder_output, prefix_fragment"));
}

TEST(ObjectKey, TextThatFormatWouldNeverPrintIsRefused) {
  const std::vector<std::string> bad = {
      "",
      "@",
      "sluice1",
      "sluice1@",
      "nonsense",
      "@" + kText,
      "a@b@" + kText,
      kText + "@",
      kText + "@id:x",
      kText + " ",
      kText + "\n",
      replaced(kText, "abc", ""),
      replaced(kText, "abc", "a c"),
      replaced(kText, "abc", "a:c"),
      replaced(kText, "abc", "a/c"),
      replaced(kText, "abc", "a\xC3\xA4"),
      replaced(kText, "abc", std::string("a\0c", 3)),
      replaced(kText, "abc", "%61bc"),  // 'a' needs no escape
      replaced(kText, "abc", "%7E"),    // neither does '~'
      replaced(kText, "abc", "ab%2"),
      replaced(kText, "abc", "ab%"),
      replaced(kText, "abc", "%GG"),
      replaced(kText, "%2F", "%2f"),  // lower case
      replaced(kText, "%2F", "/"),
      replaced(kText, "%2F", "+"),
      replaced(kText, "sluice1", "Sluice1"),
      replaced(kText, "tenant:default@", ""),
      replaced(kText, "tenant:default", "tenant:"),
      replaced(kText, "tenant:default", "tenantdefault"),
      replaced(kText, "@kind:encoder_output", ""),
      replaced(kText, "@kind:encoder_output@model:", "@model:x@kind:"),
      replaced(kText, "@id:", "@ID:"),
      replaced(kText, "@revision:main", "@revision:main@revision:main"),
      replaced(kText, "@layout:replicated", ""),
  };
  for (const auto& text : bad) EXPECT_FALSE(ObjectKey::parse(text)) << text;
}

TEST(ObjectKey, AnotherFormatVersionIsCalledSo) {
  EXPECT_EQ(ObjectKey::parse(replaced(kText, "sluice1", "sluice2")).error().code, Code::kVersion);
}

TEST(ObjectKey, TextOver1KiBIsRefusedAndExactly1KiBIsNot) {
  const auto room = kKeyBytesMax - (kText.size() - 3);
  const std::string longest(room, 'x');
  const auto key = ObjectKey::make(with(&KeyFields::id, longest));
  ASSERT_TRUE(key);
  EXPECT_EQ(key->text().size(), kKeyBytesMax);
  EXPECT_TRUE(ObjectKey::parse(key->text()));
  EXPECT_TRUE(ObjectKey::make(fields())->with_id(longest));

  EXPECT_FALSE(ObjectKey::make(with(&KeyFields::id, longest + "x")));
  EXPECT_FALSE(ObjectKey::make(fields())->with_id(longest + "x"));
  EXPECT_FALSE(ObjectKey::parse(key->text() + "x"));
  // An escaped byte counts as the three that it becomes.
  EXPECT_FALSE(ObjectKey::make(with(&KeyFields::id, std::string(room / 3 + 1, '@'))));
  EXPECT_FALSE(ObjectKey::make(with(&KeyFields::model, std::string(std::size_t{1} << 26, '@'))));
}

TEST(ObjectKey, WithIdIsMakeWithThatId) {
  const auto key = ObjectKey::make(fields()).value();
  for (const std::string id : {"x", "an id@with:%everything", "\xFF\xFE"}) {
    const auto other = key.with_id(id).value();
    EXPECT_EQ(other, ObjectKey::make(with(&KeyFields::id, id)).value());
    EXPECT_EQ(other.id_text(), ObjectKey::make(with(&KeyFields::id, id))->id_text());
    EXPECT_EQ(other.prefix_text(), key.prefix_text());
    EXPECT_EQ(other.kind(), key.kind());
  }
  EXPECT_FALSE(key.with_id(""));
}

TEST(ObjectKey, APlainNameBecomesAnAdHocKeyAndAKeysTextStaysItself) {
  const auto plain = ObjectKey::from_text("my tensor").value();
  EXPECT_EQ(plain.text(),
            "sluice1@tenant:default@kind:encoder_output@model:adhoc@revision:none@encoder:none"
            "@dtype:any@layout:replicated@id:my%20tensor");
  EXPECT_EQ(ObjectKey::from_text(plain.text()), plain);
  EXPECT_EQ(ObjectKey::from_text(kText)->text(), kText);
  EXPECT_FALSE(ObjectKey::from_text(""));
  // Meant as a key, so a mistake in it is reported, not stored under a strange name.
  EXPECT_FALSE(ObjectKey::from_text("sluice1@tenant:x"));
}

std::string random_text(std::mt19937_64& random, std::size_t least) {
  // Mostly the characters that could be confused with the format's own, sometimes any byte.
  constexpr std::string_view kTricky = "@:%~-_.aZ09sluice1@id:";
  std::string text;
  for (auto n = between<std::size_t>(random, least, 12); n > 0; --n) {
    text += between(random, 0, 3) != 0
                ? kTricky[between<std::size_t>(random, 0, kTricky.size() - 1)]
                : static_cast<char>(between(random, 0, 255));
  }
  return text;
}

KeyFields random_fields(std::mt19937_64& random) {
  KeyFields fields;
  if (between(random, 0, 1) != 0) fields.prefix = random_text(random, 0);
  if (between(random, 0, 1) != 0) fields.tenant = random_text(random, 1);
  fields.kind = static_cast<ObjectKind>(between(random, 0, 4));
  // Often the same few values, so that keys differ in one field only.
  fields.model = between(random, 0, 1) != 0 ? "m" : random_text(random, 1);
  fields.revision = between(random, 0, 1) != 0 ? "r" : random_text(random, 1);
  fields.encoder = between(random, 0, 1) != 0 ? "e" : random_text(random, 1);
  fields.dtype = between(random, 0, 1) != 0 ? "d" : random_text(random, 1);
  fields.id = random_text(random, 1);
  return fields;
}

TEST(ObjectKey, ParseOfFormatIsTheKeyForRandomFields) {
  auto random = tensor::testing::seeded();
  for (int round = 0; round < 20000; ++round) {
    const auto given = random_fields(random);
    const auto key = ObjectKey::make(given);
    ASSERT_TRUE(key) << key.error().message;
    ASSERT_EQ(key->fields(), given) << key->text();
    const auto back = ObjectKey::parse(key->text());
    ASSERT_TRUE(back) << key->text() << ": " << back.error().message;
    ASSERT_EQ(*back, *key);
    ASSERT_EQ(back->kind(), given.kind);
    ASSERT_EQ(back->prefix_text(), key->prefix_text());
    ASSERT_EQ(back->id_text(), key->id_text());
    const auto id = random_text(random, 1);
    auto moved = given;
    moved.id = id;
    ASSERT_EQ(key->with_id(id).value(), ObjectKey::make(moved).value());
  }
}

TEST(ObjectKey, TwoDifferentKeysNeverFormatAlike) {
  auto random = tensor::testing::seeded();
  std::unordered_map<std::string, KeyFields> seen;
  for (int round = 0; round < 50000; ++round) {
    const auto given = random_fields(random);
    const auto text = ObjectKey::make(given).value().text();
    const auto [at, inserted] = seen.try_emplace(text, given);
    ASSERT_EQ(at->second, given) << text;
  }
  // Moving a byte across a field's border always shows.
  const auto text = [](const char* revision, const char* encoder) {
    auto moved = fields();
    moved.revision = revision;
    moved.encoder = encoder;
    return ObjectKey::make(moved).value().text();
  };
  EXPECT_NE(text("a@encoder:b", "c"), text("a", "b@encoder:c"));
}

TEST(ObjectKey, DamagedTextIsRefusedOrNamesAnotherKey) {
  auto random = tensor::testing::seeded();
  for (int round = 0; round < 50000; ++round) {
    auto text = kText;
    text[between<std::size_t>(random, 0, text.size() - 1)] =
        static_cast<char>(between(random, 0, 255));
    const auto key = ObjectKey::parse(text);
    if (!key) continue;
    ASSERT_EQ(ObjectKey::make(key->fields())->text(), text);
    ASSERT_EQ(key->fields() == fields(), text == kText);
  }
}

}  // namespace
}  // namespace sluice
