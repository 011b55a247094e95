// request.h: one submission, copied out of a client page and checked.
//
// Invariant: a Request never refers to shared memory, and its key, when it has one, has the outer
//            form of a key text: allowed characters, within its limit, "@id:" where the client says
//            the id begins.
// Threads:   a value.
// Failure:   read_request() answers nothing for a submission that no correct client writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/client_page.h"

namespace sluice::store {

struct Request {
  std::uint64_t number = 0;
  Op op = Op::kNone;
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t reservation = 0;
  std::uint64_t extent_bytes = 0;
  std::uint64_t write_deadline_ns = 0;
  std::uint64_t object_bytes = 0;
  std::uint32_t attribute_bytes = 0;
  std::uint32_t meta_bytes = 0;
  std::uint64_t meta_digest = 0;
  std::uint64_t spec_digest = 0;
  std::uint64_t content_digest = 0;
  std::uint64_t pin = 0;
  std::string key;
  std::size_t id_at = 0;

  std::string_view prefix() const noexcept { return std::string_view(key).substr(0, id_at - 4); }
  std::string_view id() const noexcept { return std::string_view(key).substr(id_at); }
};

std::optional<Request> read_request(const Submission& submission, std::uint64_t number);

}  // namespace sluice::store
