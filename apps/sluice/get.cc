// get.cc: `sluice get KEY FILE`: an object of the arena, verified, into a file.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "npy.h"
#include "safetensors.h"
#include "tensor_file.h"

namespace sluice::cli {
namespace {

using Bytes = std::span<const std::byte>;

Result<std::string> format_of(const GetCommand& command) {
  if (!command.format.empty()) return command.format;
  for (const char* format : {"npy", "safetensors", "raw"}) {
    if (command.file.ends_with(fmt::format(".{}", format))) return format;
  }
  return fail(Code::kInvalidArgument, fmt::format("'{}' does not say its format: end the name in "
                                                  ".npy or .safetensors, or give --format npy, "
                                                  "safetensors or raw",
                                                  command.file));
}

Result<std::vector<TensorView>> chosen_tensors(const Lease& lease, const std::string& wanted) {
  auto tensors = lease.tensors();
  if (!tensors || wanted.empty()) return tensors;
  std::vector<std::string> known;
  for (const TensorView& tensor : *tensors) known.push_back(tensor.name);
  std::erase_if(*tensors, [&](const TensorView& tensor) { return tensor.name != wanted; });
  if (tensors->empty()) {
    return fail(Code::kNotFound, fmt::format("the object holds no tensor '{}'{}", wanted,
                                             app::did_you_mean(wanted, known)));
  }
  return tensors;
}

Result<std::string> header_for(const std::string& format, std::span<const TensorView> tensors,
                               const Lease& lease) {
  if (format == "raw") return "";
  if (format == "safetensors") {
    const auto attributes = lease.attributes();
    if (!attributes) return std::unexpected(attributes.error());
    return safetensors_header(tensors, *attributes);
  }
  if (tensors.size() != 1) {
    return fail(Code::kInvalidArgument,
                fmt::format("a .npy file holds one tensor and this object {}: choose one with "
                            "--tensor, or a .safetensors file",
                            tensors.size()));
  }
  return npy_header(tensors.front().spec);
}

Result<std::uint64_t> get_file(const Client& client, const ObjectKey& key,
                               const GetCommand& command) {
  const auto format = format_of(command);
  if (!format) return std::unexpected(format.error());
  const auto lease = client.get(key);  // verified
  if (!lease) return std::unexpected(explain_missing(client, command.key, lease.error()));
  const auto tensors = chosen_tensors(*lease, command.tensor);
  if (!tensors) return std::unexpected(tensors.error());
  const auto header = header_for(*format, *tensors, *lease);
  if (!header) return std::unexpected(header.error());
  std::vector<Bytes> pieces = {std::as_bytes(std::span(*header))};
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : *tensors) {
    pieces.push_back(
        lease->bytes().subspan(tensor.data_offset, tensor.data_bytes));  // checked by tensors()
    bytes += tensor.data_bytes;
  }
  if (const auto written = write_file(command.file, pieces); !written)
    return std::unexpected(written.error());
  return bytes;
}

}  // namespace

int run(const Global& global, const GetCommand& command) {
  const Output out(global.look);
  const auto key = read_key(command.key);
  if (!key) {
    out.error(key.error());
    return app::kExitUsage;
  }
  const auto client = attach(global);
  if (!client) {
    out.error(client.error());
    return app::kExitError;
  }
  const auto bytes = get_file(**client, *key, command);
  if (!bytes) {
    out.error(bytes.error());
    return app::kExitError;
  }
  if (command.file == "-") return app::kExitOk;  // the standard output holds the file
  if (out.json()) {
    out.value({{"key", key->text()}, {"file", command.file}, {"data_bytes", *bytes}});
  } else if (out.terminal()) {
    out.line(fmt::format("{} to {}", app::format_size(*bytes), command.file));
  }
  return app::kExitOk;
}

}  // namespace sluice::cli
