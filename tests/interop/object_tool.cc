// object_tool.cc: Sluice's tensor codec as a program, so that a test in another language can hold
// it against another implementation. Not installed.
//
//   sluice_object_tool encode DTYPE SHAPE ELEMENTS OBJECT   SHAPE: "2,3", or "scalar"
//   sluice_object_tool decode OBJECT ELEMENTS               prints dtype, shape, data_offset as JSON
//
// Exit codes: 0, 1 the input was refused (one line says why), 2 usage.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sluice/tensor.h>

#include "tensor/bundle.h"

namespace sluice {
namespace {

constexpr int kRefused = 1;
constexpr int kUsage = 2;

Result<std::vector<std::byte>> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kIo, fmt::format("cannot read {}", path));
  const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Status write_file(const char* path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return fail(Code::kIo, fmt::format("cannot write {}", path));
  return {};
}

Result<std::vector<std::int64_t>> shape_from(std::string_view text) {
  std::vector<std::int64_t> shape;
  if (text == "scalar") return shape;
  while (true) {
    std::int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc{}) return fail(Code::kInvalidArgument, "a dimension is not a number");
    shape.push_back(dim);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return shape;
    if (text.front() != ',') return fail(Code::kInvalidArgument, "dimensions are parted by commas");
    text.remove_prefix(1);
  }
}

Status encode(std::string_view dtype_name, std::string_view shape_text, const char* from,
              const char* to) {
  const auto dtype = dtype_from_name(dtype_name);
  if (!dtype) return std::unexpected(dtype.error());
  auto shape = shape_from(shape_text);
  if (!shape) return std::unexpected(shape.error());
  const auto elements = read_file(from);
  if (!elements) return std::unexpected(elements.error());

  const std::vector<NamedTensorSpec> specs = {
      {std::string(tensor::kOnlyTensorName), {*dtype, *std::move(shape)}}};
  const auto plan = tensor::plan_bundle(specs);
  if (!plan) return std::unexpected(plan.error());
  const auto& view = plan->tensors.front();
  if (view.data_bytes != elements->size()) {
    return fail(Code::kInvalidArgument, fmt::format("{} bytes are needed, {} are in the file",
                                                    view.data_bytes, elements->size()));
  }
  std::vector<std::byte> object(plan->object_bytes);
  tensor::write_headers(*plan, object);
  std::ranges::copy(*elements, object.begin() + static_cast<std::ptrdiff_t>(view.data_offset));
  return write_file(to, object);
}

Status decode(const char* from, const char* to) {
  const auto object = read_file(from);
  if (!object) return std::unexpected(object.error());
  const auto tensors = tensor::parse_bundle(*object, {});
  if (!tensors) return std::unexpected(tensors.error());
  const auto& view = tensors->front();
  fmt::print("{{\"dtype\": \"{}\", \"shape\": [{}], \"data_offset\": {}}}\n", name(view.spec.dtype),
             fmt::join(view.spec.shape, ", "), view.data_offset);
  return write_file(to, std::span(*object).subspan(view.data_offset, view.data_bytes));
}

int run(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  Status done;
  if (verb == "encode" && argc == 6) {
    done = encode(argv[2], argv[3], argv[4], argv[5]);
  } else if (verb == "decode" && argc == 4) {
    done = decode(argv[2], argv[3]);
  } else {
    std::fputs(
        "usage: sluice_object_tool encode DTYPE SHAPE ELEMENTS OBJECT\n"
        "       sluice_object_tool decode OBJECT ELEMENTS\n",
        stderr);
    return kUsage;
  }
  if (done) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return kRefused;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::run(argc, argv);
}
