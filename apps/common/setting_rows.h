// setting_rows.h: a table of settings, each with how its text becomes a value.
//
// Pure. Failure: kInvalidArgument that names the setting and where it was set.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/error.h>

#include "common/settings.h"

namespace sluice::app {

template <class To>
struct SettingRow {
  Setting setting;
  Status (*apply)(const std::string& value, To& to);
};

template <class To>
std::vector<Setting> settings_of(std::span<const SettingRow<To>> rows) {
  std::vector<Setting> table;
  for (const SettingRow<To>& row : rows) table.push_back(row.setting);
  return table;
}

template <class To>
Status apply_rows(std::span<const SettingRow<To>> rows, std::span<const Effective> effective,
                  To& to) {
  for (const Effective& entry : effective) {
    for (const SettingRow<To>& row : rows) {
      if (row.setting.name != entry.name) continue;
      if (const auto applied = row.apply(entry.value, to); !applied) {
        return fail(Code::kInvalidArgument, fmt::format("{} (from {}): {}", entry.name, entry.where,
                                                        applied.error().message));
      }
    }
  }
  return {};
}

// For an `apply`: what was parsed is the value.
template <class T>
Status assign(Result<T> value, T& to) {
  if (!value) return std::unexpected(value.error());
  to = std::move(*value);
  return {};
}

}  // namespace sluice::app
