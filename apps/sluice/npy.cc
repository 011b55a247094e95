#include "npy.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/limits.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Name {
  DType dtype;
  std::string_view text;
};
constexpr std::array kNames = {
    Name{DType::kF32, "<f4"}, Name{DType::kF64, "<f8"},  Name{DType::kI8, "|i1"},
    Name{DType::kU8, "|u1"},  Name{DType::kI16, "<i2"},  Name{DType::kU16, "<u2"},
    Name{DType::kI32, "<i4"}, Name{DType::kU32, "<u4"},  Name{DType::kI64, "<i8"},
    Name{DType::kU64, "<u8"}, Name{DType::kBool, "|b1"}, Name{DType::kF16, "<f2"},
};

std::unexpected<Error> refuse(std::string_view why) {
  return fail(Code::kInvalidArgument, fmt::format("not a .npy file that can be read: {}", why));
}

// The one dictionary of a header, read strictly from left to right.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  std::optional<std::string_view> quoted() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (text.find('\\') != std::string_view::npos) return std::nullopt;
    return text;
  }

  std::optional<std::int64_t> number() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || value < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  bool at_end() {
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

Result<DType> dtype_of(std::string_view descr) {
  for (const Name& name : kNames) {
    if (name.text == descr) return name.dtype;
  }
  if (descr.find('O') != std::string_view::npos) {
    return refuse(
        "it holds Python objects (a pickle), which are never loaded; save a numeric array instead");
  }
  if (descr.starts_with('>'))
    return refuse(
        "its numbers are big-endian; convert them with "
        "array.astype(array.dtype.newbyteorder('<'))");
  return refuse(fmt::format("its dtype '{}' is not one that Sluice stores", descr));
}

Result<std::vector<std::int64_t>> shape_of(Literal& literal) {
  std::vector<std::int64_t> shape;
  if (!literal.take("(")) return refuse("its shape is not a tuple");
  while (!literal.take(")")) {
    const auto size = literal.number();
    if (!size) return refuse("its shape holds something that is not a size");
    if (shape.size() == static_cast<std::size_t>(kDimsMax))
      return refuse(fmt::format("it has more than {} dimensions", kDimsMax));
    shape.push_back(*size);
    if (!literal.take(",")) {
      if (shape.size() == 1 || !literal.take(")")) return refuse("its shape is not a tuple");
      break;
    }
  }
  return shape;
}

struct Header {
  DType dtype;
  bool fortran;
  std::vector<std::int64_t> shape;
};

// What has been read of it so far; every entry stands once, in any order.
struct Entries {
  std::optional<DType> dtype;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> shape;
};

Status read_entry(Literal& literal, Entries& header) {
  const auto key = literal.quoted();
  if (!key || !literal.take(":"))
    return refuse("its header is not the dictionary that NumPy writes");
  if (*key == "descr" && !header.dtype) {
    const auto descr = literal.quoted();
    if (!descr) return refuse("its dtype is structured; save one plain array per file");
    const auto dtype = dtype_of(*descr);
    if (!dtype) return std::unexpected(dtype.error());
    header.dtype = *dtype;
  } else if (*key == "fortran_order" && !header.fortran) {
    if (literal.take("True")) {
      header.fortran = true;
    } else if (literal.take("False")) {
      header.fortran = false;
    } else {
      return refuse("fortran_order is neither True nor False");
    }
  } else if (*key == "shape" && !header.shape) {
    auto shape = shape_of(literal);
    if (!shape) return std::unexpected(shape.error());
    header.shape = std::move(*shape);
  } else {
    return refuse(fmt::format("its header holds an unexpected or repeated entry '{}'", *key));
  }
  return {};
}

Result<Header> read_header(std::string_view text) {
  Literal literal(text);
  Entries header;
  if (!literal.take("{")) return refuse("its header is not the dictionary that NumPy writes");
  while (!literal.take("}")) {
    if (const auto entry = read_entry(literal, header); !entry)
      return std::unexpected(entry.error());
    if (!literal.take(",")) {
      if (!literal.take("}")) return refuse("its header is not the dictionary that NumPy writes");
      break;
    }
  }
  if (!literal.at_end()) return refuse("text follows its header's dictionary");
  if (!header.dtype || !header.fortran || !header.shape)
    return refuse("its header lacks descr, fortran_order or shape");
  return Header{*header.dtype, *header.fortran, std::move(*header.shape)};
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> head) noexcept {
  return ByteReader(head).take_text(kMagic.size()) == kMagic;
}

Result<FileTensor> parse_npy(std::span<const std::byte> head, std::uint64_t file_bytes) {
  ByteReader reader(head);
  if (reader.take_text(kMagic.size()) != kMagic)
    return refuse("it does not start with NumPy's mark");
  const auto major = reader.read<std::uint8_t>();
  const auto minor = reader.read<std::uint8_t>();
  if (!reader.ok() || major < 1 || major > 3 || minor != 0)
    return refuse(fmt::format("format {}.{} is unknown", major, minor));
  const std::size_t header_bytes =
      major == 1 ? reader.read<std::uint16_t>() : reader.read<std::uint32_t>();
  if (header_bytes > kNpyHeadBytesMax) return refuse("its header is longer than 64 KiB");
  const std::string_view text = reader.take_text(header_bytes);
  if (!reader.ok()) return refuse("it ends inside its header");
  auto header = read_header(text);
  if (!header) return std::unexpected(header.error());
  if (header->fortran && header->shape.size() > 1) {
    return refuse("its elements are in Fortran order; save numpy.ascontiguousarray(array)");
  }
  FileTensor tensor{.name = "tensor",
                    .spec = {header->dtype, std::move(header->shape)},
                    .offset = reader.position(),
                    .bytes = 0};
  const auto bytes = byte_size(tensor.spec);
  if (!bytes) return refuse(bytes.error().message);
  tensor.bytes = *bytes;
  if (file_bytes < tensor.offset || file_bytes - tensor.offset != tensor.bytes) {
    return refuse(fmt::format("its shape needs {} bytes, but {} follow the header", tensor.bytes,
                              file_bytes < tensor.offset ? 0 : file_bytes - tensor.offset));
  }
  return tensor;
}

Result<std::string> npy_header(const TensorSpec& spec) {
  std::string_view descr;
  for (const Name& known : kNames) {
    if (known.dtype == spec.dtype) descr = known.text;
  }
  if (descr.empty()) {
    return fail(Code::kUnsupported,
                fmt::format("NumPy files cannot hold {}: choose a name that ends in .safetensors",
                            name(spec.dtype)));
  }
  const std::string shape =
      fmt::format("({}{})", fmt::join(spec.shape, ", "), spec.shape.size() == 1 ? "," : "");
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  constexpr std::size_t kLead = kMagic.size() + 4;  // mark, version, length
  const std::size_t total =
      (kLead + text.size() + 1 + 63) / 64 * 64;  // elements start at a multiple of 64
  text.append(total - kLead - text.size() - 1, ' ');
  text += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\x00';
  out += static_cast<char>(text.size() & 0xff);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

}  // namespace sluice::cli
