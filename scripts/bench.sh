#!/usr/bin/env bash
# The benchmarks: builds what they need, runs them, leaves build/bench/NAME.json.
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/bench.sh NAME... [-- OPTION...]    run benchmarks
       scripts/bench.sh --list                    their names, and what each measures
       scripts/bench.sh --report                  what was measured last, as a table (Markdown)

Options behind -- are handed to the benchmark; NAME -- --help tells them. Run them on a quiet
machine: every ratio alternates its two sides in one run, but a busy neighbour still widens it.
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/tests/bench

names() {
  grep -l '^main()$' "$folder"/*.py | xargs -n1 basename | sed 's/\.py$//; s/_/-/g; /^torch-/d'
}

list() {
  local name
  for name in $(names); do
    printf '%-12s %s\n' "$name" "$(sed -n '1s/^"""//p' "$folder/${name//-/_}.py")"
  done
}

report() {
  python3 - "$root"/build/bench/*.json <<'END'
import json, sys
print("| what | measured | goal |\n|---|---|---|")
for file in sys.argv[1:]:
    for row in json.load(open(file))["figures"]:
        spread = " ({:.3g} to {:.3g})".format(*row["spread"]) if "spread" in row else ""
        goal = "" if row["goal"] is None else f"{row['goal']:g}"
        print(f"| {row['what']} | {row['value']:.3g} {row['unit']}{spread} | {goal} |")
END
}

main() {
  local chosen=()
  while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
      -h | --help) usage; exit ;;
      --list) list; exit ;;
      --report) report; exit ;;
      *) chosen+=("$1") ;;
    esac
    shift
  done
  [[ ${1:-} != -- ]] || shift
  [[ ${#chosen[@]} -gt 0 ]] || { usage >&2; exit 2; }
  local name
  for name in "${chosen[@]}"; do
    [[ -f $folder/${name//-/_}.py ]] || { echo "bench.sh: no benchmark '$name'; see --list" >&2; exit 2; }
  done
  cmake -S "$root" --preset ci >/dev/null
  cmake --build "$root/build/ci" --target benchmarks >/dev/null
  for name in "${chosen[@]}"; do
    echo "== $name"
    python3 "$folder/${name//-/_}.py" "$@"
  done
}

main "$@"
