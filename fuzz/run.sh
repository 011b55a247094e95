#!/usr/bin/env bash
# Builds the preset `fuzz` and runs every target for SECONDS, two at a time. Prints one line per target; fails when one
# crashes, hangs or leaks, and says where the input is. What is learned stays under build/fuzz; corpus/ is only read.
#
#   fuzz/run.sh SECONDS [target ...]
set -euo pipefail

seconds="${1:?usage: fuzz/run.sh SECONDS [target ...]}"
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || { echo "fuzz/run.sh: SECONDS must be a positive whole number, not '$seconds'" >&2; exit 2; }
shift
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="$root/build/fuzz"

cd "$root"
mkdir -p "$build"
if ! { cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers --parallel 2; } >"$build/build.log" 2>&1; then
  tail -n 40 "$build/build.log" >&2
  echo "fuzz/run.sh: the build failed; all of it is in $build/build.log" >&2
  exit 1
fi

if (($# > 0)); then
  targets=("$@")
else
  targets=()
  for program in "$build"/fuzz/fuzz_*; do
    [[ -f "$program" && -x "$program" ]] && targets+=("${program##*/fuzz_}")
  done
fi
((${#targets[@]} > 0)) || { echo "fuzz/run.sh: no targets were built" >&2; exit 1; }

run_one() {
  local build="$1" root="$2" seconds="$3" name="$4"
  local learned="$build/learned/$name" found="$build/found/$name" log="$build/$name.log"
  local seeds="$root/fuzz/corpus/$name" status=0
  [[ -d "$seeds" ]] || { echo "$name: no seeds in $seeds" >&2; return 1; }
  mkdir -p "$learned" "$found"
  "$build/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/" "$learned" "$seeds" >"$log" 2>&1 || status=$?
  local executions inputs
  executions="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  inputs="$(find "$learned" "$seeds" -type f | wc -l)"
  if ((status != 0)); then
    echo "$name: FAILED (exit $status) after ${executions:-?} executions; input in $found, report in $log" >&2
    return 1
  fi
  printf '%-16s %12s executions  %6s inputs\n' "$name" "$executions" "$inputs"
}
export -f run_one

printf '%s\0' "${targets[@]}" |
  xargs -0 -n 1 -P 2 bash -c 'run_one "$@"' run_one "$build" "$root" "$seconds" ||
  exit 1
