#include "tensor_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npy.h"
#include "safetensors.h"

namespace sluice::cli {
namespace {

std::unexpected<Error> io_error(const std::string& path) {
  const char* reason = std::strerror(errno);
  return fail(errno == EACCES ? Code::kPermission : Code::kIo, fmt::format("{}: {}", path, reason));
}

Status read_at(int fd, const std::string& path, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path);
    if (n == 0) return fail(Code::kIo, fmt::format("{} became shorter while it was read", path));
    to = to.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Status write_all(int fd, const std::string& path, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t n = ::write(fd, from.data(), from.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path);
    from = from.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

// A pipe has no length and no second reading, so its bytes go to anonymous memory first.
Result<UniqueFd> spool_standard_input() {
  UniqueFd memory(::memfd_create("sluice-put", MFD_CLOEXEC));
  if (!memory) return io_error("standard input");
  std::vector<std::byte> block(1 << 20);
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("standard input");
    if (n == 0) return memory;
    const auto part = std::span(block).first(static_cast<std::size_t>(n));
    if (const auto written = write_all(memory.get(), "standard input", part); !written)
      return std::unexpected(written.error());
  }
}

Result<FileContent> read_content(int fd, const std::string& path, std::uint64_t file_bytes) {
  std::vector<std::byte> head(
      static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, kNpyHeadBytesMax)));
  if (const auto read = read_at(fd, path, 0, head); !read) return std::unexpected(read.error());
  if (looks_like_npy(head)) {
    auto tensor = parse_npy(head, file_bytes);
    if (!tensor) return std::unexpected(tensor.error());
    return FileContent{.tensors = {std::move(*tensor)}, .attributes = {}};
  }
  if (!looks_like_safetensors(head)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} is neither a .npy nor a .safetensors file", path));
  }
  const auto header_bytes = safetensors_header_bytes(head, file_bytes);
  if (!header_bytes) return std::unexpected(header_bytes.error());
  std::vector<std::byte> header(static_cast<std::size_t>(*header_bytes));
  if (const auto read = read_at(fd, path, sizeof(std::uint64_t), header); !read)
    return std::unexpected(read.error());
  return parse_safetensors(header, file_bytes);
}

}  // namespace

Result<TensorFile> TensorFile::open(const std::string& path) {
  UniqueFd fd;
  if (path == "-") {
    auto spooled = spool_standard_input();
    if (!spooled) return std::unexpected(spooled.error());
    fd = std::move(*spooled);
  } else {
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return io_error(path);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return io_error(path);
  if (!S_ISREG(status.st_mode))
    return fail(Code::kInvalidArgument,
                fmt::format("{} is not a regular file; use - for a pipe", path));
  auto content = read_content(fd.get(), path, static_cast<std::uint64_t>(status.st_size));
  if (!content)
    return fail(content.error().code, fmt::format("{}: {}", path, content.error().message));
  return TensorFile(std::move(fd), path, std::move(*content));
}

Status TensorFile::read(const FileTensor& tensor, std::span<std::byte> to) const {
  return read_at(fd_.get(), path_, tensor.offset, to);
}

Status write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  if (path == "-") {
    for (const auto& piece : pieces) {
      if (auto written = write_all(STDOUT_FILENO, "standard output", piece); !written)
        return written;
    }
    return {};
  }
  const std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
  UniqueFd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return io_error(path);
  Status written;
  for (const auto& piece : pieces) {
    if (written) written = write_all(fd.get(), path, piece);
  }
  if (written && ::close(fd.release()) != 0) written = io_error(path);
  if (written && ::rename(partial.c_str(), path.c_str()) != 0) written = io_error(path);
  if (!written) ::unlink(partial.c_str());
  return written;
}

}  // namespace sluice::cli
