#include "safetensors.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace sluice::cli {
namespace {

std::string file_with(const std::string& header, std::size_t data_bytes) {
  std::string out(8, '\0');
  ByteWriter(std::as_writable_bytes(std::span(out))).write<std::uint64_t>(header.size());
  return out + header + std::string(data_bytes, 'x');
}

Result<FileContent> parse(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  const auto length = safetensors_header_bytes(bytes, file.size());
  if (!length) return std::unexpected(length.error());
  return parse_safetensors(bytes.subspan(8, *length), file.size());
}

TEST(Safetensors, WhatIsWrittenIsReadBackForEveryDtype) {
  std::vector<TensorView> tensors;
  std::uint64_t total = 0;
  for (int i = 0; i <= static_cast<int>(DType::kF8E5M2); ++i) {
    TensorView view{.name = "t" + std::to_string(i),
                    .spec = {static_cast<DType>(i), {2, 3}},
                    .data_offset = 0,
                    .data_bytes = 0};
    view.data_bytes = byte_size(view.spec).value();
    total += view.data_bytes;
    tensors.push_back(view);
  }
  const std::string file =
      safetensors_header(tensors, {{"note", std::string("hello")}}) + std::string(total, 'x');
  const auto content = parse(file);
  ASSERT_TRUE(content.has_value()) << content.error().message;
  ASSERT_EQ(content->tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(content->tensors[i].name, tensors[i].name);
    EXPECT_EQ(content->tensors[i].spec, tensors[i].spec);
  }
  EXPECT_EQ(content->attributes, (Attributes{{"note", std::string("hello")}}));
  EXPECT_TRUE(looks_like_safetensors(std::as_bytes(std::span(file))));
}

TEST(Safetensors, MalformedHeadersAreRefusedEachWithItsReason) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{", "not a JSON object"},
      {"{}", "no tensor"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
       "twice"},
      {R"({"a":{"dtype":"C64","shape":[2],"data_offsets":[0,16]}})", "dtype"},
      {R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})", "shape"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})", "do not match"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})", "outside"},
      {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})", "outside"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "follow"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", "hole"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
       "overlaps"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,16]}})",
       "do not match"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"x":1}})", "exactly"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,16]}})", "shape"},
      {R"({"__metadata__":{"a":1},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
       "__metadata__"},
      {R"({"a":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]})", "deeply"},
  };
  for (const auto& [header, reason] : wrong) {
    const auto content = parse(file_with(header, 16));
    ASSERT_FALSE(content.has_value()) << header;
    EXPECT_EQ(content.error().code, Code::kInvalidArgument);
    EXPECT_NE(content.error().message.find(reason), std::string::npos) << header << "\n"
                                                                       << content.error().message;
  }
}

TEST(Safetensors, ALengthBeyondTheFileOrTheLimitIsRefused) {
  std::string file(8, '\xff');
  EXPECT_FALSE(parse(file).has_value());
  EXPECT_FALSE(parse("").has_value());
  EXPECT_FALSE(parse("1234567").has_value());
  std::string beyond(8, '\0');
  beyond[0] = 100;
  EXPECT_FALSE(parse(beyond + "{}").has_value());
}

TEST(Safetensors, EveryTruncationAndEveryChangedBitIsAnsweredWithoutReadingOutside) {
  const std::string good =
      file_with(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16);
  ASSERT_TRUE(parse(good).has_value());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(parse(good.substr(0, length)).has_value()) << length;
  }
  for (std::size_t i = 0; i < (good.size() - 16) * 8; ++i) {
    std::string changed = good;
    changed[i / 8] = static_cast<char>(changed[i / 8] ^ (1 << (i % 8)));
    if (const auto content = parse(changed)) {
      for (const FileTensor& tensor : content->tensors)
        EXPECT_LE(tensor.offset + tensor.bytes, changed.size());
    }
  }
}

}  // namespace
}  // namespace sluice::cli
