#include "arena_side.h"

#include <array>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace sluice::stub {
namespace {

constexpr std::int64_t kRows = 192, kWidth = 8;

std::string_view ec_role(std::string_view role) {
  return role == "encoder" ? "ec_producer" : "ec_consumer";
}

}  // namespace

Result<ArenaSide> ArenaSide::attach(const std::string& directory, std::string prefix,
                                    std::string_view role) {
  const std::string engine = fmt::format("stub-{}-{}", role, ::getpid());
  auto client = Client::attach({.directory = directory,
                                .label = fmt::format("vllm/{}/scheduler", engine),
                                .attach_timeout = std::chrono::seconds(10)});
  if (!client) return std::unexpected(client.error());
  const nlohmann::json board = {{"sluice_vllm", 1},
                                {"engine", engine},
                                {"side", "scheduler"},
                                {"rank", 0},
                                {"boot", (*client)->boot()},
                                {"counters", nlohmann::json::object()},
                                {"acknowledged", nlohmann::json::array()},
                                {"errors", nlohmann::json::array()},
                                {"record",
                                 {{"role", ec_role(role)},
                                  {"prefix", prefix},
                                  {"vllm", "0.32.0"},
                                  {"widths", {{"image", kWidth}}},
                                  {"encoder_cache_bytes", 1 << 20},
                                  {"on_failure", "fallback"}}}};
  if (auto posted = (*client)->post(board.dump()); !posted) return std::unexpected(posted.error());
  return ArenaSide(std::move(*client), std::move(prefix));
}

Status ArenaSide::put(std::string_view identifier) {
  return put(ObjectKey::parse(fmt::format("{}@id:{}", prefix_, identifier)),
             {{"modality", std::string("image")},
              {"rows", std::vector<std::int64_t>{kRows}},
              {"image_grid_thw", std::vector<std::int64_t>{1, 24, 32}}});
}

Status ArenaSide::put_handoff(std::string_view handoff) {
  for (const std::string_view part : {"0.0.0", "0.0.end"}) {
    const auto key = ObjectKey::make({.kind = ObjectKind::kKvHandoff,
                                      .model = "kv",
                                      .revision = "1",
                                      .encoder = "none",
                                      .dtype = "uint8",
                                      .id = fmt::format("{}.{}", handoff, part)});
    if (auto done = put(key, {}); !done) return done;
  }
  return {};
}

Status ArenaSide::put(const Result<ObjectKey>& key, const Attributes& attributes) {
  if (!key) return std::unexpected(key.error());
  const std::vector<std::byte> bytes(kRows * kWidth * 2, std::byte{1});
  const std::array<TensorInput, 1> tensors{
      {{.spec = {.dtype = DType::kBF16, .shape = {kRows, kWidth}}, .data = bytes}}};
  const auto outcome = client_->put(*key, tensors, attributes);
  if (!outcome) return std::unexpected(outcome.error());
  return {};
}

}  // namespace sluice::stub
