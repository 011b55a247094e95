// splice.h: a stage's body, made of pieces of the client's body and a few strings of our own.
//
// Invariant: the pieces in order are valid JSON when the edits replace whole JSON values or members
//            by such. Bytes of the client's body are never copied: pieces point into it.
// Threads:   one owner. Owner: Pieces own only our own strings; the body must outlive them.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/openai_request.h"

namespace sluice::proxy {

class Pieces {
 public:
  void borrow(std::string_view text) {
    if (text.empty()) return;
    views_.push_back(text);
    bytes_ += text.size();
  }
  void own(std::string text) { borrow(owned_.emplace_back(std::move(text))); }

  std::span<const std::string_view> views() const noexcept { return views_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::string joined() const;  // a copy, for tests

 private:
  std::deque<std::string> owned_;  // a deque: views into its strings stay valid
  std::vector<std::string_view> views_;
  std::size_t bytes_ = 0;
};

struct Edit {
  Span span;  // of the body
  std::string text;
};

struct BodyPlan {
  std::vector<Edit> edits;             // inside values of kept fields; ascending, not overlapping
  std::vector<std::string_view> drop;  // names of top-level fields
  std::string add;                     // members to put behind the others: "a":1,"b":2
};

Pieces compose(const ScannedRequest& request, const BodyPlan& plan);

// The edit that gives a media part our uuid, or takes the caller's away ("": no uuid).
Edit uuid_edit(const MediaPart& part, std::string_view uuid);

// The body that asks an encoder for one item; `uuid` as above.
Pieces encode_body(const ScannedRequest& request, const MediaPart& part, std::string_view uuid);

}  // namespace sluice::proxy
