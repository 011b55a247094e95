// instance_tables.h: the [[instance]] tables of a configuration file.
//
// Pure. Failure: kInvalidArgument naming the file, line and key.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

#include "common/settings.h"
#include "proxy/instance.h"

namespace sluice::proxy_app {

struct InstanceTable {
  app::Layer values;
  std::string where;  // file:line
};

struct ProxyFile {
  app::Layer settings;
  std::vector<InstanceTable> instances;
};

Result<ProxyFile> read_proxy_file(std::string_view text, std::string_view path,
                                  std::span<const app::Setting> table);

Result<proxy::InstanceSpec> instance_of(const InstanceTable& table, bool allow_remote);

}  // namespace sluice::proxy_app
