// rm.cc: `sluice rm KEY | --prefix P`: takes objects out of the arena.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "commands.h"
#include "common/exit_code.h"

namespace sluice::cli {
namespace {

// A plain word names plain names, as for `ls`; anything with the key's mark is taken as it stands.
Result<std::uint64_t> remove_prefix(Client& client, const std::string& prefix,
                                    std::chrono::milliseconds timeout) {
  if (prefix.find("sluice1@") != std::string::npos) return client.invalidate(prefix, timeout);
  const auto plain = ObjectKey::from_text(prefix);
  if (!plain) return std::unexpected(plain.error());
  const auto by_name = client.invalidate(plain->text(), timeout);
  if (!by_name) return by_name;
  const auto by_text = client.invalidate(prefix, timeout);
  if (!by_text) return by_text;
  return *by_name + *by_text;
}

}  // namespace

int run(const Global& global, const RmCommand& command) {
  const Output out(global.look);
  const auto client = attach(global);
  if (!client) {
    out.error(client.error());
    return app::kExitError;
  }
  if (!command.prefix.empty()) {
    const auto removed = remove_prefix(**client, command.prefix, global.timeout);
    if (!removed) {
      out.error(removed.error());
      return app::kExitError;
    }
    if (out.json()) {
      out.value({{"prefix", command.prefix}, {"removed", *removed}});
    } else {
      out.line(fmt::format("removed {} objects", *removed));
    }
    return app::kExitOk;
  }
  const auto key = read_key(command.key);
  if (!key) {
    out.error(key.error());
    return app::kExitUsage;
  }
  if (const auto removed = (*client)->remove(*key, global.timeout); !removed) {
    out.error(explain_missing(**client, command.key, removed.error()));
    return app::kExitError;
  }
  if (out.json()) {
    out.value({{"key", key->text()}, {"removed", 1}});
  } else if (out.terminal()) {
    out.line(fmt::format("removed {}", printable(command.key)));
  }
  return app::kExitOk;
}

}  // namespace sluice::cli
