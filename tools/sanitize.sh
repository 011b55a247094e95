#!/usr/bin/env bash
# sanitize.sh PRESET...: builds each sanitizer preset and runs every C++ test in it. Any report fails its test.
set -euo pipefail
cd "$(dirname "$0")/.."

export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

failed=()
for preset in "$@"; do
  tools/build.sh "$preset"
  echo "-- testing build/$preset"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" --timeout 600 \
    > "build/stamps/ctest-$preset.log" 2>&1 || failed+=("$preset")
  grep -E '^[0-9]+% tests passed|tests failed out of' "build/stamps/ctest-$preset.log" || true
  if [[ " ${failed[*]} " == *" $preset "* ]]; then
    sed -n '/The following tests FAILED/,$p' "build/stamps/ctest-$preset.log"
    echo "Details: build/stamps/ctest-$preset.log" >&2
  fi
done
((${#failed[@]} == 0))
