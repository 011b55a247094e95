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
  const auto key = ObjectKey::parse(fmt::format("{}@id:{}", prefix_, identifier));
  if (!key) return std::unexpected(key.error());
  const std::vector<std::byte> bytes(kRows * kWidth * 2, std::byte{1});
  const std::array<TensorInput, 1> tensors{
      {{.spec = {.dtype = DType::kBF16, .shape = {kRows, kWidth}}, .data = bytes}}};
  const Attributes attributes{{"modality", std::string("image")},
                              {"rows", std::vector<std::int64_t>{kRows}},
                              {"image_grid_thw", std::vector<std::int64_t>{1, 24, 32}}};
  const auto outcome = client_->put(*key, tensors, attributes);
  if (!outcome) return std::unexpected(outcome.error());
  return {};
}

}  // namespace sluice::stub
