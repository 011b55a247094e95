// A request's header and body: what we take, Beast takes, with the same fields, the same end and
// the same data; and no piece of it was taken for a whole header before.
#include "base/check.h"
#include "fuzz_target.h"
#include "http/framing.h"
#include "http_beside_beast.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const auto bytes = fuzz::text_of(fuzz::bytes_of(data, size));
  http::RequestView view;
  const auto check = http::check_request(bytes, {}, view);
  if (check.verdict == http::Verdict::kRefused) {
    CHECK(check.refusal.status >= 400 && check.refusal.status < 500);
    CHECK(!check.refusal.code.empty() && !check.refusal.what.empty());
  }
  if (check.verdict != http::Verdict::kComplete) return 0;
  CHECK(check.bytes <= size && check.bytes <= http::HeadLimits{}.bytes_max);
  CHECK(bytes.substr(check.bytes - 4, 4) == "\r\n\r\n");
  CHECK(view.fields.size() <= http::HeadLimits{}.fields_max);
  CHECK(view.target.starts_with('/') || view.target == "*");
  CHECK(view.body != http::BodyKind::kUntilClose);
  const auto head = bytes.substr(0, check.bytes);
  http::RequestView part;
  for (std::size_t cut = 0; cut < head.size(); cut += 1 + head.size() / 64) {
    CHECK(http::check_request(head.substr(0, cut), {}, part).verdict == http::Verdict::kIncomplete);
  }
  fuzz::check_head_beside_beast<true>(head, view);
  if (view.body == http::BodyKind::kChunked) {
    fuzz::check_chunks_beside_beast<true>(head, bytes.substr(check.bytes));
  }
  return 0;
}
