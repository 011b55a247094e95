// The two frames of the attach socket: exactly right, or refused with a reason.
#include "store/attach_frames.h"

#include <cstring>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/test_arena.h"

namespace sluice::store {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& frame) {
  return std::as_bytes(std::span(&frame, 1));
}

TEST(AttachFrames, WhatWasSentIsRead) {
  AttachRequest request;
  request.client = 3;
  request.serial = 4;
  request.boot = 5;
  request.label = label_bytes("engine 0");
  const auto read = decode_request(bytes_of(request));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::memcmp(&*read, &request, sizeof(request)), 0);
  EXPECT_EQ(label_text(read->label), "engine 0");

  const AttachReply refusal = refuse(Code::kLimit, "no place left");
  const auto reply = decode_reply(bytes_of(refusal));
  ASSERT_TRUE(reply);
  EXPECT_EQ(static_cast<Code>(reply->code - 1), Code::kLimit);
  EXPECT_STREQ(reply->message.data(), "no place left");
}

TEST(AttachFrames, AnotherLengthMagicOrVersionIsRefusedEachWithItsReason) {
  const AttachRequest good;
  std::vector<std::byte> longer(bytes_of(good).begin(), bytes_of(good).end());
  longer.push_back({});
  EXPECT_EQ(decode_request(longer).error().code, Code::kVersion);
  EXPECT_EQ(decode_request(bytes_of(good).first(sizeof(good) - 1)).error().code, Code::kVersion);
  EXPECT_EQ(decode_request({}).error().code, Code::kVersion);
  AttachRequest bad;
  bad.magic ^= 1;
  EXPECT_EQ(decode_request(bytes_of(bad)).error().code, Code::kInvalidArgument);
  bad = {};
  bad.version = 9;
  EXPECT_THAT(decode_request(bytes_of(bad)).error().message, testing::HasSubstr("version 9"));
  bad = {};
  bad.control_version = 8;
  EXPECT_EQ(decode_request(bytes_of(bad)).error().code, Code::kVersion);
  bad = {};
  bad.reserved = 1;
  EXPECT_EQ(decode_request(bytes_of(bad)).error().code, Code::kInvalidArgument);

  AttachReply reply;
  EXPECT_EQ(decode_reply(bytes_of(reply).first(10)).error().code, Code::kVersion);
  reply.magic = 0;
  EXPECT_EQ(decode_reply(bytes_of(reply)).error().code, Code::kVersion);
  reply = {};
  reply.code = 1000;
  EXPECT_EQ(decode_reply(bytes_of(reply)).error().code, Code::kVersion);
}

// Every bit of the part that says what the frame is.
TEST(AttachFrames, NoBitOfMagicOrVersionMayFlip) {
  for (std::size_t bit = 0; bit < 16 * 8; ++bit) {
    AttachRequest request;
    reinterpret_cast<unsigned char*>(&request)[bit / 8] ^=
        static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(decode_request(bytes_of(request))) << bit;
  }
  for (std::size_t bit = 0; bit < 12 * 8; ++bit) {
    AttachReply reply;
    reinterpret_cast<unsigned char*>(&reply)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(decode_reply(bytes_of(reply))) << bit;
  }
}

TEST(AttachFrames, TextsEndInsideTheirFieldsWhateverStandsInThem) {
  std::array<char, kLabelBytes> label{};
  label.fill('x');
  EXPECT_EQ(label_text(label).size(), kLabelBytes) << "no zero to end it";
  label[5] = '\n';
  EXPECT_EQ(label_text(label), "xxxxx");
  label[2] = '\x80';
  EXPECT_EQ(label_text(label), "xx");
  EXPECT_EQ(label_text(label_bytes(std::string(200, 'y'))), std::string(63, 'y'));

  AttachReply reply = refuse(Code::kIo, std::string(1000, 'z'));
  EXPECT_EQ(std::strlen(reply.message.data()), reply.message.size() - 1);
  reply.message.fill('z');
  EXPECT_EQ(std::strlen(decode_reply(bytes_of(reply))->message.data()), reply.message.size() - 1);
}

}  // namespace
}  // namespace sluice::store
