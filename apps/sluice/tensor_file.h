// tensor_file.h: opening files of tensors and writing them, on disk or through a pipe ("-").
//
// Threads: one owner. Failure: kIo with the path and the system's reason; kInvalidArgument from the
//          parsers.
// Limits: tensors of one file as many as an object holds.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <sluice/client.h>

#include "base/unique_fd.h"
#include "file_tensor.h"

namespace sluice::cli {

class TensorFile {
 public:
  // The format is told by the content. "-" takes the standard input.
  static Result<TensorFile> open(const std::string& path);

  const FileContent& content() const noexcept { return content_; }
  // Fills `to` with the elements of a tensor. Requires to.size() == tensor.bytes.
  Status read(const FileTensor& tensor, std::span<std::byte> to) const;

 private:
  TensorFile(UniqueFd fd, std::string path, FileContent content)
      : fd_(std::move(fd)), path_(std::move(path)), content_(std::move(content)) {}
  UniqueFd fd_;
  std::string path_;
  FileContent content_;
};

// Writes pieces one after the other to `path`: whole or not at all. "-" is the standard output.
Status write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace sluice::cli
