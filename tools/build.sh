#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures and builds one preset of CMakePresets.json under build/PRESET.
#
# The release preset also builds the Python extension, for the interpreter of .venv. Configures again only when the
# options here changed; the build itself is incremental.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
options=()
if [[ $preset == release ]]; then
  options+=(-DSLUICE_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$PWD/.venv/bin/python")
fi

# As many jobs as there are processors, but no more than memory allows at 2 GiB each.
jobs=$(nproc)
memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
by_memory=$((memory_kib / 2097152))
((by_memory < 1)) && by_memory=1
((jobs > by_memory)) && jobs=$by_memory

stamp=build/stamps/configure-$preset
digest=$(printf '%s\n' "$PWD" "${options[@]}" "$(<CMakePresets.json)" "$(<tools/build.sh)" | sha256sum | cut -d' ' -f1)
if [[ ! -f build/$preset/build.ninja || ! -f $stamp || $(<"$stamp") != "$digest" ]]; then
  echo "-- configuring build/$preset"
  mkdir -p build/stamps
  log=build/stamps/configure-$preset.log
  cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  echo "$digest" > "$stamp"
fi
# Where ccache is installed: a clone in another folder finds what this one compiled.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1

targets=()
(($#)) && targets=(--target "$@")
log=build/stamps/build-$preset.log
echo "-- building build/$preset"
if [[ -t 1 ]]; then
  cmake --build "build/$preset" -j "$jobs" "${targets[@]}"
else
  cmake --build "build/$preset" -j "$jobs" "${targets[@]}" >"$log" 2>&1 || { tail -n 100 "$log" >&2; exit 1; }
fi
