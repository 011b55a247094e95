#!/usr/bin/env bash
# sanitize.sh PRESET...: builds each sanitizer preset, runs every C++ test in it and the proxy's tests against its
# sluice-proxy (their own client of the arena is the release build's). Any report fails its test. Logs: build/stamps/.
set -euo pipefail
cd "$(dirname "$0")/.."

# A small quarantine: some tests of the proxy bound its memory. Under TSan, whose shadow is a multiple of it, they say
# nothing and are left out.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:quarantine_size_mb=4
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

failed=0

# told LOG COMMAND...: runs it, shows what it counted, and what failed.
told() {
  local log="build/stamps/$1"
  shift
  if "$@" >"$log" 2>&1; then
    grep -E '^[0-9]+% tests passed|^[0-9]+ passed' "$log" || true
  else
    failed=1
    sed -n '/The following tests FAILED/,$p' "$log"
    grep -E '^FAILED|^ERROR|^[0-9]+ (passed|failed)' "$log" || tail -n 20 "$log"
    echo "Details: $log" >&2
  fi
}

for preset in "$@"; do
  tools/build.sh "$preset"
  echo "-- testing build/$preset"
  told "ctest-$preset.log" \
    ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" --timeout 600
  echo "-- testing build/$preset: sluice-proxy against scripted engines"
  chosen=()
  [[ $preset != tsan ]] || chosen=(-m "not memory")
  PYTHONPATH=build/release/python told "proxy-$preset.log" \
    .venv/bin/python -m pytest tests/proxy --build-dir "build/$preset" -q -p no:cacheprovider "${chosen[@]}"
done
exit "$failed"
