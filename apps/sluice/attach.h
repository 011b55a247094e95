// attach.h: reaching the arena and finding an object in it, with errors that say what to do.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/client.h>

#include "commands.h"

namespace sluice::cli {

// kOnce: one command, one object. kHot: as an engine would use the arena, with memory asked for
// ahead.
enum class Use { kOnce, kHot };

// Fails with the arena, its folder, and how to start a daemon.
Result<std::unique_ptr<Client>> attach(const Global& global, Use use = Use::kOnce);

// Where the arena lies: the folder given, or that of the name.
Result<std::string> arena_directory(const Global& global);

// A key as people typed it: a full key, or a plain name.
Result<ObjectKey> read_key(std::string_view text);

// The short form of a key that a plain name was given for, the full text of any other.
std::string display_key(const std::string& key_text);

// Objects whose key, or whose plain name, starts with `prefix`.
std::vector<ObjectInfo> list_matching(const Client& client, const std::string& prefix,
                                      std::size_t limit);

// The same error; if it is "not found", with the nearest key that is there.
Error explain_missing(const Client& client, const std::string& wanted, Error error);

}  // namespace sluice::cli
