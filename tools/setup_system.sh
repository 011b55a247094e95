#!/usr/bin/env bash
# setup_system.sh GROUP...: installs the missing Debian packages of the named groups, and nothing when none is missing.
#
# Needs root or sudo only in the first case. Never asks a question.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=()
while read -r package groups; do
  [[ -z $package || $package == \#* ]] && continue
  for group in $groups; do
    for asked in "$@"; do
      [[ $group == "$asked" ]] && wanted+=("$package")
    done
  done
done < tools/debian-packages.txt
((${#wanted[@]})) || { echo "setup_system.sh: no package is in the groups: $*" >&2; exit 2; }

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "These Debian packages are missing: ${missing[*]}" >&2
    echo "Run as root, install sudo, or install them by hand." >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "-- installing Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
