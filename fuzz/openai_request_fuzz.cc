// A client's body: what is accepted has spans inside the body, and every body that is made of it is
// again one that the scanner accepts, with the same media and without what only the proxy says.
#include <string>

#include "base/check.h"
#include "fuzz_target.h"
#include "proxy/media_digest.h"
#include "proxy/openai_request.h"
#include "proxy/splice.h"

namespace {

using namespace sluice::proxy;

struct Padded {
  explicit Padded(std::string_view text) : size(text.size()), bytes(text) {
    bytes.append(kScanPadding, '\0');
  }
  std::string_view text() const { return std::string_view(bytes).substr(0, size); }
  std::size_t size;
  std::string bytes;
};

void check_span(const Span& span, std::size_t size) {
  CHECK(span.begin <= span.end && span.end <= size);
}

void check_part(const MediaPart& part, std::string_view body) {
  check_span(part.part, body.size());
  CHECK(part.part.of(body).starts_with('{') && part.part.of(body).ends_with('}'));
  CHECK(part.data.begin > part.part.begin && part.data.end < part.part.end);
  CHECK(part.data.of(body).starts_with('"') && part.data.of(body).ends_with('"'));
  CHECK(media_digest("t", part.type, part.data.of(body)).size() == 32);
  if (part.uuid.end == 0) return;
  CHECK(part.uuid.begin > part.part.begin && part.uuid.end < part.part.end);
  CHECK(part.uuid.of(body).starts_with('"'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Scanner scanner;
  const Padded input({reinterpret_cast<const char*>(data), size});
  const auto scanned = scanner.scan(input.text(), {.allow_image_embeds = true});
  if (!scanned) {
    CHECK(scanned.error().status == 400 && !scanned.error().message.empty());
    CHECK(error_body(scanned.error()).starts_with("{\"error\":{"));
    return 0;
  }
  for (const TopField& field : scanned->fields) {
    check_span(field.slot, size);
    CHECK(field.slot.of(input.text()).starts_with('"'));
    CHECK(field.slot.begin < field.value.begin && field.value.end == field.slot.end);
    CHECK(field.name != "kv_transfer_params" && field.name != "ec_transfer_params");
  }
  BodyPlan plan{.drop = {"stream", "n", "max_tokens"}, .add = R"("max_tokens":1)"};
  for (const MediaPart& part : scanned->media) {
    check_part(part, input.text());
    plan.edits.push_back(uuid_edit(part, part.remote ? "" : "ours"));
    const Padded encode(encode_body(*scanned, part, "ours").joined());
    const auto again = scanner.scan(encode.text(), {.allow_image_embeds = true});
    CHECK(again && again->media.size() == 1 && again->media[0].type == part.type);
    CHECK(again->media[0].uuid_value.of(encode.text()) == "\"ours\"");
  }
  const Padded made(compose(*scanned, plan).joined());
  const auto again = scanner.scan(made.text(), {.allow_image_embeds = true});
  CHECK(again && again->media.size() == scanned->media.size());
  CHECK(!again->stream && again->n == 1 && again->text_of("max_tokens") == "1");
  CHECK(compose(*scanned, {}).joined() == scanned->object.of(input.text()));
  return 0;
}
