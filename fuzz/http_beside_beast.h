// http_beside_beast.h: the same bytes through Beast's parser.
//
// Beast is the second reader of a message: where it would see another message than ours, a request
// could hide in another one. Beast takes more than we do; nothing that we take may mean something
// else to it.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/check.h"
#include "http/chunks.h"
#include "http/framing.h"

namespace sluice::fuzz {

namespace beast = boost::beast;

// `bytes` are one whole header that we took.
template <bool kRequest>
void check_head_beside_beast(std::string_view bytes, const http::HeadView& ours) {
  beast::http::parser<kRequest, beast::http::empty_body> parser;
  parser.header_limit(1 << 20);
  parser.body_limit(boost::none);  // it would refuse a long body when it reads the header
  parser.eager(false);
  beast::error_code error;
  const std::size_t used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  CHECK(!error || error == beast::http::error::need_more);
  CHECK(parser.is_header_done());
  CHECK(used == bytes.size());
  CHECK(parser.chunked() == (ours.body == http::BodyKind::kChunked));
  if (ours.body == http::BodyKind::kLength) {
    CHECK(parser.content_length() && *parser.content_length() == ours.length);
  }
  if (ours.keep_alive && ours.body != http::BodyKind::kNone) CHECK(parser.keep_alive());
  const auto& message = parser.get();
  CHECK(message.version() == ours.version);
  std::size_t seen = 0;
  for (const auto& theirs : message) {
    static_cast<void>(theirs);
    ++seen;
  }
  CHECK(seen == ours.fields.size());
  // Beast puts fields of one name side by side, so the n-th of a name is the n-th of a name.
  for (auto field = ours.fields.begin(); field != ours.fields.end(); ++field) {
    const auto earlier = std::count_if(ours.fields.begin(), field, [&](const auto& other) {
      return http::equal_ignoring_case(other.name, field->name);
    });
    const auto [first, last] = message.equal_range(field->name);
    CHECK(std::distance(first, last) > earlier);
    const auto theirs = std::next(first, earlier);
    CHECK(theirs->name_string() == field->name);
    CHECK(theirs->value() == field->value);
  }
}

struct Unchunked {
  std::string data;
  std::size_t consumed = 0;
};

// The body, however it is cut; nothing when it is malformed or not whole.
inline std::optional<Unchunked> unchunk(std::string_view coded, std::size_t piece) {
  http::ChunkDecoder decoder;
  Unchunked out;
  while (out.consumed < coded.size() && !decoder.done() && decoder.error().empty()) {
    const auto step = decoder.next(coded.substr(out.consumed, piece));
    CHECK(step.consumed <= std::min(piece, coded.size() - out.consumed));
    CHECK(step.consumed > 0);
    out.data.append(step.data);
    out.consumed += step.consumed;
  }
  if (!decoder.done()) return std::nullopt;
  return out;
}

// Without extensions and trailers, whose grammar Beast reads more closely than we, who drop them.
inline bool is_plain(std::string_view coded, std::string_view data) {
  if (std::ranges::count(coded, ';') != std::ranges::count(data, ';')) return false;
  coded.remove_suffix(4);
  const std::string_view last = coded.substr(coded.rfind('\n') + 1);
  return last.find_first_not_of('0') == std::string_view::npos;
}

// `head` is a header that says chunked, `rest` what follows it.
template <bool kRequest>
void check_chunks_beside_beast(std::string_view head, std::string_view rest) {
  const auto ours = unchunk(rest, rest.size());
  for (const std::size_t piece : {1, 3, 7}) {
    const auto cut = unchunk(rest, piece);
    CHECK(cut.has_value() == ours.has_value());
    if (cut) CHECK(cut->data == ours->data && cut->consumed == ours->consumed);
  }
  if (!ours) return;
  const std::string whole = std::string(head) + std::string(rest.substr(0, ours->consumed));
  beast::http::parser<kRequest, beast::http::string_body> parser;
  parser.header_limit(1 << 20);
  parser.body_limit(boost::none);
  parser.eager(true);
  beast::error_code error;
  std::size_t used = 0;
  while (used < whole.size() && !parser.is_done() && !error) {
    used += parser.put(boost::asio::buffer(whole.data() + used, whole.size() - used), error);
  }
  if (error) {
    CHECK(!is_plain(rest.substr(0, ours->consumed), ours->data));
    return;
  }
  CHECK(parser.is_done());
  CHECK(used == whole.size());
  CHECK(parser.get().body() == ours->data);
}

}  // namespace sluice::fuzz
