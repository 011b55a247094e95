#include "proxy/media_digest.h"

#include <array>
#include <initializer_list>
#include <memory>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace sluice::proxy {
namespace {

constexpr std::size_t kNameBytes = 16;

std::string hex(const unsigned char* bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * kNameBytes);
  for (std::size_t i = 0; i < kNameBytes; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

std::string digest(std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  CHECK(context != nullptr);
  CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (const std::string_view part : parts) {
    CHECK(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  CHECK(EVP_DigestFinal_ex(context.get(), out.data(), nullptr) == 1);
  return hex(out.data());
}

}  // namespace

std::string media_digest(std::string_view tenant, std::string_view type, std::string_view data) {
  constexpr std::string_view kZero("\0", 1);
  return digest({tenant, kZero, type, kZero, data});
}

std::string text_digest(std::string_view text) {
  return digest({text});
}

std::string random_name() {
  std::array<unsigned char, kNameBytes> bytes{};
  CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return hex(bytes.data());
}

}  // namespace sluice::proxy
