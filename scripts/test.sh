#!/usr/bin/env bash
# The whole test command: packages, build, CTest (style checks are tests too).
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/test.sh [--preset ci|asan|tsan] [OPTION OF ctest...]

Installs what is missing (scripts/packages.sh), builds everything with the preset (default: ci) and
runs its tests. Options are handed on to ctest:

  scripts/test.sh -R unit.Plan

CMAKE_BUILD_PARALLEL_LEVEL sets the number of build jobs.
END
}

preset=ci
case ${1:-} in
  -h | --help) usage; exit ;;
  --preset) preset=${2:?a preset is missing}; shift 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $EUID == 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

scripts/packages.sh install run test
scripts/packages.sh install cluster || echo "test.sh: goes on; tests of what is missing are skipped"
scripts/packages.sh install style || echo "test.sh: goes on; the style checks without a tool are skipped"
cmake --preset "$preset"
cmake --build --preset "$preset"
exec ctest --preset "$preset" -j2 "$@"
