#include "proxy/splice.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace sluice::proxy {
namespace {

// [span) of the body with the edits that lie inside; `next` is the first edit not used yet.
void borrow_edited(Pieces& to, std::string_view body, Span span, std::span<const Edit> edits,
                   std::size_t& next) {
  std::size_t at = span.begin;
  while (next < edits.size() && edits[next].span.begin < span.begin) ++next;  // of dropped fields
  for (; next < edits.size() && edits[next].span.end <= span.end; ++next) {
    const Edit& edit = edits[next];
    CHECK(edit.span.begin >= at && edit.span.begin <= edit.span.end);
    to.borrow(Span{at, edit.span.begin}.of(body));
    to.own(edit.text);
    at = edit.span.end;
  }
  to.borrow(Span{at, span.end}.of(body));
}

}  // namespace

std::string Pieces::joined() const {
  std::string out;
  out.reserve(bytes_);
  for (const std::string_view view : views_) out += view;
  return out;
}

Pieces compose(const ScannedRequest& request, const BodyPlan& plan) {
  Pieces out;
  std::size_t next_edit = 0;
  if (plan.drop.empty() && plan.add.empty()) {
    borrow_edited(out, request.body, request.object, plan.edits, next_edit);
    return out;
  }
  const auto dropped = [&](const TopField& field) {
    return std::ranges::find(plan.drop, field.name) != plan.drop.end();
  };
  out.borrow("{");
  bool first = true;
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    if (dropped(request.fields[i])) continue;
    // Neighbours that stay are one piece, with the comma between them.
    Span run = request.fields[i].slot;
    while (i + 1 < request.fields.size() && !dropped(request.fields[i + 1])) {
      run.end = request.fields[++i].slot.end;
    }
    if (!first) out.borrow(",");
    first = false;
    borrow_edited(out, request.body, run, plan.edits, next_edit);
  }
  if (!plan.add.empty()) {
    if (!first) out.borrow(",");
    out.own(plan.add);
  }
  out.borrow("}");
  return out;
}

Edit uuid_edit(const MediaPart& part, std::string_view uuid) {
  const std::string value = uuid.empty() ? "null" : fmt::format("\"{}\"", uuid);
  if (part.uuid.end != 0) return {part.uuid, fmt::format("\"uuid\":{}", value)};
  const std::size_t behind_brace = part.part.begin + 1;
  if (uuid.empty()) return {{behind_brace, behind_brace}, ""};
  return {{behind_brace, behind_brace}, fmt::format("\"uuid\":{},", value)};
}

Pieces encode_body(const ScannedRequest& request, const MediaPart& part, std::string_view uuid) {
  Pieces out;
  out.borrow(R"({"messages":[{"role":"user","content":[)");
  const Edit edit = uuid_edit(part, uuid);
  std::size_t next_edit = 0;
  borrow_edited(out, request.body, part.part, std::span(&edit, 1), next_edit);
  out.borrow(R"(]}],"max_tokens":1)");
  for (const std::string_view name : {"model", "mm_processor_kwargs", "media_io_kwargs"}) {
    const TopField* field = request.field(name);
    if (field == nullptr) continue;
    out.borrow(",");
    out.borrow(field->slot.of(request.body));
  }
  out.borrow("}");
  return out;
}

}  // namespace sluice::proxy
