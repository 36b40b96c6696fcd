#!/usr/bin/env bash
# From a fresh checkout to a trained network: packages, build, data, run.
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/quickstart.sh [OPTION OF dynpipe train...]

Installs what is missing (scripts/packages.sh), builds dynpipe into build/cpu, puts Fashion-MNIST
into data/fashion-mnist and trains models/vgg8.json on it for two epochs, one pipeline stage per
core (2 to 8 stages). Prints the mpirun line before it runs it. Options are handed on to dynpipe:

  scripts/quickstart.sh --max-updates 20

CMAKE_BUILD_PARALLEL_LEVEL sets the number of build jobs.
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
data=data/fashion-mnist
files=({train,t10k}-images-idx3-ubyte.gz {train,t10k}-labels-idx1-ubyte.gz)

say() { echo "quickstart: $*"; }

build() {
  scripts/packages.sh install run
  cmake --preset cpu
  cmake --build --preset cpu --target dynpipe
}

have_data() {
  local file
  for file in "${files[@]}"; do
    [[ -e $data/$file || -e $data/${file%.gz} ]] || return 1
  done
}

get_data() {
  have_data && return
  if ! scripts/packages.sh install data; then
    say "put ${files[*]} into $root/$data and start again"
    exit 2
  fi
  local file source
  mkdir -p "$data"
  for file in "${files[@]}"; do
    source=$(dpkg -L dataset-fashion-mnist | grep -F "/$file")
    cp "$source" "$data/$file.part"  # a copy: other nodes may see this folder but not the package
    mv "$data/$file.part" "$data/$file"
  done
}

# Cores, not hardware threads, that this process may use: OpenMPI counts its slots in them.
count_cores() {
  local threads cores
  threads=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l) || cores=$threads
  echo $((cores < threads ? cores : threads))
}

run() {
  local cores ranks placing=(--bind-to core) line=()
  cores=$(count_cores)
  ranks=$((cores < 2 ? 2 : cores > 8 ? 8 : cores))
  ((ranks <= cores)) || placing=(--oversubscribe)
  if [[ $EUID == 0 ]]; then
    line=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  fi
  line+=(mpirun -n "$ranks" "${placing[@]}" build/cpu/apps/dynpipe/dynpipe train
    --model models/vgg8.json --data "$data" --epochs 2 --schedule async --weights 2bw
    --microbatches 4 --nesterov --weight-decay 5e-4 --lr-warmup 300
    --summary build/quickstart.json "$@")
  say "this runs, from $root:"
  printf '%q ' "${line[@]}"
  echo
  exec "${line[@]}"
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  usage
  exit
fi
build
get_data
run "$@"
