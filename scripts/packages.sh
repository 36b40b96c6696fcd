#!/usr/bin/env bash
# The packages dynpipe needs, and how to get them.
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/packages.sh list [SECTION...]
       scripts/packages.sh install [SECTION...]

Sections: run (build and run), test, cluster (for the tests of Slurm, MPICH, modules and hosts),
style (the style checks), data (Fashion-MNIST); "run" if none is given. `list` prints their Debian
packages. `install` installs those that are missing: on a Debian-like system as root or with a sudo
that asks for no password. Elsewhere it changes nothing, looks whether all is there in another form
(modules, Spack), and if not says what to install and exits with 2.
END
}

# Debian packages by section; minimal versions are checked by CMake.
declare -A packages=(
  # C++20 compiler: g++ 11, clang 14     CMake 3.22            OpenMPI 4.1
  # Boost.Program_options 1.74           nlohmann_json 3.10    fmt 8
  # oneDNN 2.5 (its CMake package asks for OpenCL's headers)   OpenBLAS, zlib: any
  # HDF5 1.10.7, the serial C library    libpng 1.6            libjpeg-turbo 1.5     xxHash 0.8
  # XGBoost 1.7
  [run]="g++ cmake ninja-build openmpi-bin libopenmpi-dev libboost-program-options-dev
         nlohmann-json3-dev libfmt-dev zlib1g-dev libhdf5-dev libxxhash-dev libpng-dev libturbojpeg0-dev
         libdnnl-dev ocl-icd-opencl-dev libopenblas-dev libxgboost-dev"
  # GoogleTest 1.11                      Python 3.9            h5py 3.6          matplotlib 3.5
  [test]="libgtest-dev python3 python3-h5py python3-matplotlib hdf5-tools"
  # Slurm 22.05
  [cluster]="slurm-wlm munge iproute2 libmpich-dev environment-modules python3-yaml"
  [style]="clang-format clang-tidy"
  [data]="dataset-fashion-mnist"
)
declare -A elsewhere=(
  [run]="C++20 compiler (gcc >= 11 or clang >= 14), CMake >= 3.22, Ninja, OpenMPI >= 4.1,
     Boost.Program_options >= 1.74, nlohmann_json >= 3.10, fmt >= 8, zlib,
     HDF5 >= 1.10.7 (serial), xxHash >= 0.8, libpng >= 1.6, libjpeg-turbo >= 1.5, oneDNN >= 2.5, OpenBLAS,
     XGBoost >= 1.7
     where there are modules, for instance:
     module load gcc cmake ninja openmpi boost nlohmann-json fmt zlib hdf5 xxhash libpng
     libjpeg-turbo onednn openblas xgboost"
  [test]="GoogleTest >= 1.11, python3 >= 3.9, h5py >= 3.6, matplotlib >= 3.5, h5dump"
  [cluster]="Slurm's daemons, Munge, iproute2, MPICH beside Open MPI, Environment Modules, PyYAML"
  [style]="clang-format 14, clang-tidy 14"
  [data]="the four Fashion-MNIST files, see data/README.md"
)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

have() { command -v "$1" >/dev/null; }

names_in() {
  local section
  for section in "$@"; do tr -s ' \n' '\n' <<<"${packages[$section]}"; done
}

# The packages of these sections that dpkg does not know as installed.
missing_in() {
  local names
  mapfile -t names < <(names_in "$@")
  if have dpkg-query; then
    comm -23 <(printf '%s\n' "${names[@]}" | sort) \
      <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${names[@]}" 2>/dev/null |
        sed -n 's/^installed //p' | sort -u)
  else
    printf '%s\n' "${names[@]}"
  fi
}

can_install() {
  have apt-get || return 1
  [[ $EUID == 0 ]] || { have sudo && sudo -n true 2>/dev/null; }
}

apt_get() {
  local as_root=(env)
  [[ $EUID == 0 ]] || as_root=(sudo -n env)
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

# apt-get downloads everything before it unpacks anything, so a failure leaves nothing half done.
install_by_apt() {
  echo "packages.sh: installing $*"
  apt_get install --simulate "$@" &>/dev/null || apt_get update
  apt_get install --no-install-recommends "$@" && return
  echo "packages.sh: once more, with fresh package lists"
  apt_get update
  apt_get install --no-install-recommends "$@"
}

# Whether a section's tools and libraries are there, whatever they were installed with.
is_there() {
  case $1 in
    run) configures -DDYNPIPE_TESTS=OFF && have mpirun ;;
    test) configures -DDYNPIPE_TESTS=ON && have python3 ;;
    style) have clang-format && have clang-tidy ;;
    cluster | data) false ;;
  esac
}

configures() {
  local build status=0
  build=$(mktemp -d)
  cmake -S "$root" -B "$build" -G Ninja "$@" &>/dev/null || status=1
  rm -rf "$build"
  return "$status"
}

install_sections() {
  local missing section absent=()
  mapfile -t missing < <(missing_in "$@")
  [[ ${#missing[@]} == 0 ]] && return
  if can_install; then
    install_by_apt "${missing[@]}"
    return
  fi
  for section in "$@"; do
    [[ -z $(missing_in "$section") ]] || is_there "$section" || absent+=("$section")
  done
  [[ ${#absent[@]} == 0 ]] && return

  {
    echo "packages.sh: nothing was installed; this is missing:"
    for section in "${absent[@]}"; do echo "  ${elsewhere[$section]}"; done
    echo "On a Debian-like system:"
    mapfile -t missing < <(missing_in "${absent[@]}")
    echo "  apt-get install --no-install-recommends ${missing[*]}"
  } >&2
  exit 2
}

main() {
  local command=${1:---help} section
  shift || true
  [[ $# -gt 0 ]] || set -- run
  for section in "$@"; do
    [[ -v "packages[$section]" ]] || { usage >&2; exit 2; }
  done
  case $command in
    list) names_in "$@" ;;
    install) install_sections "$@" ;;
    -h | --help) usage ;;
    *) usage >&2; exit 2 ;;
  esac
}

main "$@"
