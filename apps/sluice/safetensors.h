// safetensors.h: safetensors files: a length, a JSON header, and the elements.
//
// Pure functions over bytes. Refused, each with its own sentence: headers over 16 MiB or beyond the
// file, JSON that names a tensor twice, unknown dtypes, offsets that overlap, leave a hole or do
// not match dtype and shape, bytes after the last tensor. Strings of __metadata__ become
// attributes. Source of the format: github.com/huggingface/safetensors, README "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sluice/error.h>

#include "file_tensor.h"

namespace sluice::cli {

inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = std::uint64_t{16} << 20;

bool looks_like_safetensors(std::span<const std::byte> head) noexcept;

// Length of the header that the first 8 bytes announce, checked against the limit and the file.
Result<std::uint64_t> safetensors_header_bytes(std::span<const std::byte> head,
                                               std::uint64_t file_bytes);

// `header`: the JSON alone, as long as safetensors_header_bytes() said.
Result<FileContent> parse_safetensors(std::span<const std::byte> header, std::uint64_t file_bytes);

// Length and JSON for tensors that follow in this order without a gap.
std::string safetensors_header(std::span<const TensorView> tensors, const Attributes& attributes);

}  // namespace sluice::cli
