// token.h: secrets of the programs: from a file, or from a variable.
//
// Read once at start. Failure: kInvalidArgument that names the file or the variable and never what
// is in it: exit 78.
#pragma once

#include <string>

#include <sluice/error.h>

#include "common/settings.h"

namespace sluice::app {

// The secret in a file that nobody else can read (mode 0600 or stricter), without the line's end.
// At most 4 KiB.
Result<std::string> read_token_file(const std::string& path);

// The file's, where one is named; else the variable's. Empty: there is none.
Result<std::string> read_token(const std::string& path, const std::string& variable,
                               const Environment& environment);

}  // namespace sluice::app
