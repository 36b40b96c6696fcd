#!/usr/bin/env bash
# usage: scripts/check_tidy.sh BUILD_FOLDER
# Runs clang-tidy over the sources of lib and apps that BUILD_FOLDER compiles. A source that was
# clean is not looked at again until it, a header or .clang-tidy changes. Exits with 77 (skipped)
# without clang-tidy 14: other versions know other checks.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?usage: scripts/check_tidy.sh BUILD_FOLDER}
tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [[ -z $tidy ]] || ! "$tidy" --version | grep -q 'version 14\.'; then
  echo "check_tidy.sh: skipped, there is no clang-tidy 14"
  exit 77
fi
stamps=$build/tidy-stamps
export build tidy stamps

check_file() {
  local stamp=$stamps/$1
  mkdir -p "$(dirname "$stamp")"
  touch "$stamp.begun"  # an edit during the check must not count as checked
  "$tidy" -p "$build" --quiet "$1" 2>&1 | sed '/^[0-9]* warnings\? generated\.$/d'
  mv "$stamp.begun" "$stamp"
}
export -f check_file

needs_check() {
  local stamp=$stamps/$1
  [[ ! -e $stamp || $1 -nt $stamp || .clang-tidy -nt $stamp ]] ||
    [[ -n $(find lib apps -name '*.hpp' -newer "$stamp" -print -quit) ]]
}

find lib apps -name '*.cpp' | sort | while read -r file; do
  grep -q "/$file\"" "$build/compile_commands.json" || continue
  if needs_check "$file"; then printf '%s\0' "$file"; fi
done | xargs -0 -r -n 1 -P "$(nproc)" bash -euo pipefail -c 'check_file "$1"' check_tidy
