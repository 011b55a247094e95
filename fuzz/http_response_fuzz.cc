// An engine's answer: what we take, Beast takes, with the same status, fields, end and data.
#include "base/check.h"
#include "fuzz_target.h"
#include "http/framing.h"
#include "http_beside_beast.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const auto bytes = fuzz::text_of(fuzz::bytes_of(data, size));
  const http::HeadLimits limits{.bytes_max = 64 * 1024, .fields_max = 256};
  http::ResponseView view;
  const auto check = http::check_response(bytes, limits, false, view);
  if (check.verdict != http::Verdict::kComplete) return 0;
  CHECK(check.bytes <= size);
  CHECK(view.status >= 100 && view.status <= 999);
  const bool bodiless = view.status < 200 || view.status == 204 || view.status == 304;
  CHECK((view.body == http::BodyKind::kNone) == bodiless);
  if (bodiless) return 0;
  const auto head = bytes.substr(0, check.bytes);
  fuzz::check_head_beside_beast<false>(head, view);
  if (view.body == http::BodyKind::kChunked) {
    fuzz::check_chunks_beside_beast<false>(head, bytes.substr(check.bytes));
  }
  return 0;
}
