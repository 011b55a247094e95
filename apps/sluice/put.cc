// put.cc: `sluice put KEY FILE`: tensors of a file into the arena, read from the file straight into
// their place.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "tensor_file.h"

namespace sluice::cli {
namespace {

Result<std::vector<FileTensor>> chosen_tensors(const TensorFile& file, const std::string& wanted) {
  std::vector<FileTensor> chosen = file.content().tensors;
  if (!wanted.empty()) {
    std::vector<std::string> known;
    known.reserve(chosen.size());
    for (const FileTensor& tensor : chosen) known.push_back(tensor.name);
    std::erase_if(chosen, [&](const FileTensor& tensor) { return tensor.name != wanted; });
    if (chosen.empty()) {
      return fail(Code::kInvalidArgument, fmt::format("the file holds no tensor '{}'{}", wanted,
                                                      app::did_you_mean(wanted, known)));
    }
  }
  if (chosen.size() == 1) chosen.front().name = "tensor";  // a bundle of one calls it so
  return chosen;
}

struct Done {
  PutOutcome outcome = PutOutcome::kPublished;
  std::uint64_t bytes = 0;
};

Result<Done> put_file(Client& client, const ObjectKey& key, const PutCommand& command,
                      std::chrono::milliseconds timeout) {
  const auto file = TensorFile::open(command.file);
  if (!file) return std::unexpected(file.error());
  const auto tensors = chosen_tensors(*file, command.tensor);
  if (!tensors) return std::unexpected(tensors.error());
  std::vector<NamedTensorSpec> specs;
  Done done;
  for (const FileTensor& tensor : *tensors) {
    specs.push_back({tensor.name, tensor.spec});
    done.bytes += tensor.bytes;  // of one file, whose length fits
  }
  auto writer = client.reserve(key, specs, file->content().attributes,
                               {.timeout = timeout,
                                .checksums = command.checksums,
                                .soft_pin = command.soft_pin,
                                .hard_pin = command.hard_pin});
  if (!writer) return std::unexpected(writer.error());
  if (!*writer) {
    done.outcome = PutOutcome::kDuplicate;
    return done;
  }
  for (std::size_t i = 0; i < tensors->size(); ++i) {
    if (const auto read = file->read((*tensors)[i], writer->data(i)); !read)
      return std::unexpected(read.error());
  }
  const auto outcome = writer->publish();
  if (!outcome) return std::unexpected(outcome.error());
  done.outcome = *outcome;
  return done;
}

}  // namespace

int run(const Global& global, const PutCommand& command) {
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
  const auto done = put_file(**client, *key, command, global.timeout);
  if (!done) {
    out.error(done.error());
    return app::kExitError;
  }
  if (out.json()) {
    out.value({{"key", key->text()},
               {"outcome", sluice::name(done->outcome)},
               {"data_bytes", done->bytes}});
  } else if (out.terminal() || done->outcome != PutOutcome::kPublished) {
    out.line(fmt::format("{} {} ({})", sluice::name(done->outcome), printable(command.key),
                         app::format_size(done->bytes)));
  }
  return app::kExitOk;
}

}  // namespace sluice::cli
