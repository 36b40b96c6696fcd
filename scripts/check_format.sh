#!/usr/bin/env bash
# Checks that clang-format would change nothing. Exits with 77 (skipped) without clang-format 14:
# other versions format a little differently.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $format ]] || ! "$format" --version | grep -q 'version 14\.'; then
  echo "check_format.sh: skipped, there is no clang-format 14"
  exit 77
fi
complaints=$(find lib apps tests \( -name '*.hpp' -o -name '*.cpp' \) -print0 |
  xargs -0 "$format" --dry-run 2>&1)
if [[ -n $complaints ]]; then
  echo "Not formatted; this would do it: clang-format -i \\"
  grep -o '^[^ :]*\.[ch]pp:' <<<"$complaints" | tr -d : | sort -u
  exit 1
fi
