#include "attach.h"

#include <fmt/format.h>

#include "common/nearest.h"
#include "store/daemon.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kSuggestFromMax = 20'000;  // keys looked at for a suggestion
constexpr std::string_view kKeyMark = "sluice1@";

}  // namespace

Result<std::string> arena_directory(const Global& global) {
  if (!global.directory.empty()) return global.directory;
  return store::default_directory(global.arena);
}

Result<std::unique_ptr<Client>> attach(const Global& global, Use use) {
  const auto directory = arena_directory(global);
  if (!directory) return std::unexpected(directory.error());
  ClientOptions options;
  options.arena = global.arena;
  options.directory = global.directory;
  options.label = "sluice command line";
  options.attach_timeout = global.timeout;
  if (use == Use::kOnce) {
    options.grant_ahead_bytes = 0;   // one object at a time is put, and waited for
    options.populate_bytes_max = 0;  // few objects are read
  }
  auto client = Client::attach(options);
  if (!client && client.error().code == Code::kUnavailable) {
    const std::string flag = global.directory.empty()
                                 ? fmt::format("--arena {}", global.arena)
                                 : fmt::format("--directory {}", global.directory);
    return fail(
        Code::kUnavailable,
        fmt::format("no daemon serves arena '{}' ({}): start one with `sluiced {}` or `sluice up`",
                    global.directory.empty() ? global.arena : global.directory, *directory, flag));
  }
  if (!client && client.error().code == Code::kPermission) {
    return fail(
        Code::kPermission,
        fmt::format("{} (folder {}): run as the daemon's user, or start it with --mode 0770 and "
                    "share its group",
                    client.error().message, *directory));
  }
  return client;
}

Result<ObjectKey> read_key(std::string_view text) {
  return ObjectKey::from_text(text);
}

std::string display_key(const std::string& key_text) {
  const auto key = ObjectKey::parse(key_text);
  if (!key) return key_text;
  const std::string id = key->fields().id;
  const auto plain = ObjectKey::from_text(id);
  return plain && plain->text() == key_text ? id : key_text;
}

std::vector<ObjectInfo> list_matching(const Client& client, const std::string& prefix,
                                      std::size_t limit) {
  if (prefix.empty() || prefix.find(kKeyMark) != std::string::npos)
    return client.list(prefix, limit);
  std::vector<ObjectInfo> found;
  if (const auto plain = ObjectKey::from_text(prefix)) found = client.list(plain->text(), limit);
  if (found.size() >= limit) return found;
  // The word may also begin an operator's namespace, or the mark itself.
  for (ObjectInfo& object : client.list(prefix, limit - found.size()))
    found.push_back(std::move(object));
  return found;
}

Error explain_missing(const Client& client, const std::string& wanted, Error error) {
  if (error.code != Code::kNotFound) return error;
  std::vector<std::string> known;
  for (const ObjectInfo& object : client.list("", kSuggestFromMax)) {
    if (object.presence == Presence::kPresent) known.push_back(display_key(object.key));
  }
  error.message =
      fmt::format("no object '{}'{}", wanted,
                  known.empty() ? ": the arena is empty" : app::did_you_mean(wanted, known));
  if (!known.empty() && error.message.ends_with("'"))
    error.message += ": `sluice ls` lists what is there";
  return error;
}

}  // namespace sluice::cli
