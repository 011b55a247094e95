#include "proxy/request_record.h"

#include <fmt/format.h>

#include "proxy/openai_error.h"

namespace sluice::proxy {
namespace {

double ms(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

}  // namespace

std::string StageTimes::text() const {
  return fmt::format(
      "queue={:.3f}, encode={:.3f}, feature={:.3f}, prefill={:.3f}, handoff={:.3f}, decode={:.3f}",
      ms(queue_ns), ms(encode_ns), ms(feature_ns), ms(prefill_ns), ms(handoff_ns), ms(decode_ns));
}

std::string RequestRecord::json(Instant ended) const {
  std::string out = fmt::format(
      R"({{"id":{},"method":{},"target":{},"status":{},"peer":{},"ms":{:.3f},"request_bytes":{},"answer_bytes":{})",
      json_string(id), json_string(method), json_string(target), status, json_string(peer),
      ms(ended - began), request_bytes, answer_bytes);
  if (engine_id != id) out += fmt::format(R"(,"engine_id":{})", json_string(engine_id));
  if (!model.empty()) out += fmt::format(R"(,"model":{})", json_string(model));
  if (!engine.empty()) out += fmt::format(R"(,"engine":{})", json_string(engine));
  if (!cause.empty()) out += fmt::format(R"(,"cause":{})", json_string(cause));
  if (stream) out += R"(,"stream":true)";
  if (media != 0) out += fmt::format(R"(,"media":{})", media);
  if (tries > 1) out += fmt::format(R"(,"tries":{})", tries);
  if (first_content != 0) {
    out += fmt::format(R"(,"first_content_ms":{:.3f})", ms(first_content - began));
  }
  out += fmt::format(
      R"(,"queue_ms":{:.3f},"encode_ms":{:.3f},"prefill_ms":{:.3f},"decode_ms":{:.3f}}})",
      ms(times.queue_ns), ms(times.encode_ns), ms(times.prefill_ns), ms(times.decode_ns));
  return out;
}

}  // namespace sluice::proxy
