#include "safetensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/limits.h"
#include "common/json_view.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kLead = 8;  // the header's length
constexpr std::string_view kMetadata = "__metadata__";
constexpr int kNestingMax = 8;

struct Name {
  DType dtype;
  std::string_view text;
};
constexpr std::array kNames = {
    Name{DType::kF32, "F32"},   Name{DType::kF64, "F64"},        Name{DType::kI8, "I8"},
    Name{DType::kU8, "U8"},     Name{DType::kI16, "I16"},        Name{DType::kU16, "U16"},
    Name{DType::kI32, "I32"},   Name{DType::kU32, "U32"},        Name{DType::kI64, "I64"},
    Name{DType::kU64, "U64"},   Name{DType::kBool, "BOOL"},      Name{DType::kF16, "F16"},
    Name{DType::kBF16, "BF16"}, Name{DType::kF8E4M3, "F8_E4M3"}, Name{DType::kF8E5M2, "F8_E5M2"},
};

std::unexpected<Error> refuse(std::string_view why) {
  return fail(Code::kInvalidArgument,
              fmt::format("not a safetensors file that can be read: {}", why));
}

// JSON whose objects name nothing twice and which is not nested without need.
Result<json> parse_json(std::string_view text) {
  std::vector<std::set<std::string>> names;
  std::string repeated;
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    too_deep = too_deep || depth > kNestingMax;
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key &&
        !names.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return !too_deep;
  };
  json parsed = json::parse(text, watch, false);
  if (too_deep) return refuse("its header is nested too deeply");
  if (parsed.is_discarded() || !parsed.is_object())
    return refuse("its header is not a JSON object");
  if (!repeated.empty()) return refuse(fmt::format("its header names '{}' twice", repeated));
  return parsed;
}

Result<std::uint64_t> whole_number(const json& value) {
  if (!value.is_number_unsigned()) return refuse("a size or an offset is not a whole number");
  return value.get<std::uint64_t>();
}

Result<FileTensor> tensor_of(const std::string& name, const json& entry, std::uint64_t data_offset,
                             std::uint64_t data_bytes) {
  const auto why = [&](std::string_view text) {
    return refuse(fmt::format("tensor '{}': {}", name, text));
  };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return why("must have exactly dtype, shape and data_offsets");
  }
  FileTensor tensor{.name = name, .spec = {}, .offset = 0, .bytes = 0};
  const json& dtype = entry["dtype"];
  const auto known = std::ranges::find_if(kNames, [&](const Name& row) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == row.text;
  });
  if (known == kNames.end())
    return why(fmt::format("dtype {} is not one that Sluice stores", app::dump(dtype)));
  tensor.spec.dtype = known->dtype;
  const json& shape = entry["shape"];
  if (!shape.is_array() || shape.size() > static_cast<std::size_t>(kDimsMax))
    return why(fmt::format("shape must be a list of at most {} sizes", kDimsMax));
  for (const json& size : shape) {
    const auto number = whole_number(size);
    if (!number || *number > static_cast<std::uint64_t>(INT64_MAX))
      return why("shape holds something that is not a size");
    tensor.spec.shape.push_back(static_cast<std::int64_t>(*number));
  }
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) return why("data_offsets must be two numbers");
  const auto begin = whole_number(offsets[0]);
  const auto end = whole_number(offsets[1]);
  if (!begin || !end || *begin > *end || *end > data_bytes)
    return why("data_offsets lie outside the file");
  const auto bytes = byte_size(tensor.spec);
  if (!bytes || *bytes != *end - *begin)
    return why("data_offsets do not match its dtype and shape");
  tensor.offset = data_offset +
                  *begin;  // data_offset + data_bytes is the file's length, so this cannot overflow
  tensor.bytes = *bytes;
  return tensor;
}

Result<Attributes> attributes_of(const json& metadata) {
  Attributes out;
  if (!metadata.is_object()) return refuse("__metadata__ is not an object of strings");
  for (const auto& [name, value] : metadata.items()) {
    if (!value.is_string()) return refuse("__metadata__ is not an object of strings");
    out.push_back({name, value.get<std::string>()});
  }
  return out;
}

Status check_no_gap(std::vector<FileTensor> tensors, std::uint64_t at, std::uint64_t end) {
  std::ranges::sort(
      tensors, {}, [](const FileTensor& tensor) { return std::pair(tensor.offset, tensor.bytes); });
  for (const FileTensor& tensor : tensors) {
    if (tensor.offset != at)
      return refuse(
          fmt::format("tensor '{}' overlaps another or leaves a hole before it", tensor.name));
    at += tensor.bytes;
  }
  if (at != end) return refuse("bytes follow the last tensor");
  return {};
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> head) noexcept {
  ByteReader reader(head);
  const auto length = reader.read<std::uint64_t>();
  return reader.take_text(1) == "{" && length >= 2 && length <= kSafetensorsHeaderBytesMax;
}

Result<std::uint64_t> safetensors_header_bytes(std::span<const std::byte> head,
                                               std::uint64_t file_bytes) {
  ByteReader reader(head);
  const auto length = reader.read<std::uint64_t>();
  if (!reader.ok()) return refuse("it is shorter than 8 bytes");
  if (length > kSafetensorsHeaderBytesMax) return refuse("its header is longer than 16 MiB");
  if (!fits(kLead, length, file_bytes)) return refuse("it ends inside its header");
  return length;
}

Result<FileContent> parse_safetensors(std::span<const std::byte> header, std::uint64_t file_bytes) {
  const auto parsed = parse_json({reinterpret_cast<const char*>(header.data()), header.size()});
  if (!parsed) return std::unexpected(parsed.error());
  if (!fits(kLead, header.size(), file_bytes)) return refuse("it ends inside its header");
  const std::uint64_t data_offset = kLead + header.size();
  FileContent content;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == kMetadata) {
      auto attributes = attributes_of(entry);
      if (!attributes) return std::unexpected(attributes.error());
      content.attributes = std::move(*attributes);
      continue;
    }
    auto tensor = tensor_of(name, entry, data_offset, file_bytes - data_offset);
    if (!tensor) return std::unexpected(tensor.error());
    content.tensors.push_back(std::move(*tensor));
  }
  if (content.tensors.empty()) return refuse("it holds no tensor");
  if (const auto whole = check_no_gap(content.tensors, data_offset, file_bytes); !whole)
    return std::unexpected(whole.error());
  return content;
}

std::string safetensors_header(std::span<const TensorView> tensors, const Attributes& attributes) {
  json header = json::object();
  if (!attributes.empty()) {
    json metadata = json::object();
    const json values = app::to_json(attributes);
    for (const auto& [name, value] : values.items()) {
      metadata[name] = value.is_string() ? value.get<std::string>() : app::dump(value);
    }
    header[std::string(kMetadata)] = std::move(metadata);
  }
  std::uint64_t at = 0;
  for (const TensorView& tensor : tensors) {
    const auto row = std::ranges::find(kNames, tensor.spec.dtype, &Name::dtype);
    header[tensor.name] = {{"dtype", row->text},
                           {"shape", tensor.spec.shape},
                           {"data_offsets", {at, at + tensor.data_bytes}}};
    at += tensor.data_bytes;
  }
  std::string text = app::dump(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // elements start aligned
  const std::uint64_t length = text.size();
  std::string out(kLead, '\0');
  ByteWriter(std::as_writable_bytes(std::span(out))).write(length);
  return out + text;
}

}  // namespace sluice::cli
