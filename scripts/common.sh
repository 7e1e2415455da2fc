# shellcheck shell=bash
# Shared by the scripts of this folder, which source it. Every function may be called again.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Headers, libraries and CMake packages outside the system's folders.
if [[ -n ${TERN_DEPENDENCIES:-} ]]; then
  TERN_DEPENDENCIES=$(cd "$TERN_DEPENDENCIES" && pwd)
  export PKG_CONFIG_PATH=$TERN_DEPENDENCIES/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
fi

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "$(basename "$0"): $*"
  exit 1
}

# ---- missing packages -----------------------------------------------------------------------------------------------
missing_packages=()
missing_reasons=()
optional_packages=()

have_command() { command -v "$1" >/dev/null 2>&1; }
have_file() { [[ -e $1 ]]; }

have_header() {
  local folder
  for folder in ${TERN_DEPENDENCIES:+"$TERN_DEPENDENCIES/include"} /usr/include /usr/local/include; do
    [[ -e $folder/$1 ]] && return
  done
  return 1
}

# need command|header|file NAME PACKAGE WHY
need() {
  "have_$1" "$2" && return
  missing_packages+=("$3")
  missing_reasons+=("  $3: $4")
}

# want command|header|file NAME PACKAGE: the same for optional packages
want() { "have_$1" "$2" || optional_packages+=("$3"); }

# Optional: reading photographs.
want_images() {
  want header jpeglib.h libjpeg-dev
  want header png.h libpng-dev
}

# Optional: groups of processes. Without it a build runs single processes and threads.
want_mpi() {
  want command mpirun openmpi-bin
  want command mpicxx libopenmpi-dev
}

need_to_build() {
  if ! have_command "${CXX:-c++}"; then need command g++ g++ "the C++ compiler"; fi
  need command cmake cmake "configures the build"
  need command ninja ninja-build "runs the build"
  need header hwy/highway.h libhwy-dev "Highway, the SIMD of the vectorized mode"
  need header zlib.h zlib1g-dev "reads .gz files"
  need header CLI/CLI.hpp libcli11-dev "CLI11, the examples' command line"
}

# Installs with apt what `need` and `want` found missing; does not call apt if nothing is.
install_missing() {
  ((${#missing_packages[@]} + ${#optional_packages[@]})) || return 0
  local as_root=() obstacle=
  ((EUID == 0)) || as_root=(sudo)
  if ! have_command apt-get; then
    obstacle="there is no apt-get; install these packages, or what they are called here, and start again"
  elif ((EUID != 0)) && ! have_command sudo; then
    obstacle="not root, and there is no sudo; as root: apt-get install ${missing_packages[*]}"
  fi
  if ((${#missing_packages[@]})); then
    say "Missing here, to be installed with apt:"
    printf '%s\n' "${missing_reasons[@]}" >&2
    [[ -z $obstacle ]] || fail "$obstacle"
  fi
  if [[ -z $obstacle ]]; then
    local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends)
    "${as_root[@]}" apt-get update -q >&2 || say "apt-get update failed; trying with the lists that are there"
    if ((${#missing_packages[@]})); then
      "${install[@]}" "${missing_packages[@]}" >&2 || fail "apt could not install ${missing_packages[*]}"
    fi
    if ((${#optional_packages[@]})); then
      "${install[@]}" "${optional_packages[@]}" >&2 || obstacle="apt could not install them"
    fi
  fi
  if ((${#optional_packages[@]})) && [[ -n $obstacle ]]; then
    say "Going on without ${optional_packages[*]}: $obstacle"
  fi
  missing_packages=() missing_reasons=() optional_packages=()
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/.* //p')
  [[ $(printf '3.25\n%s\n' "$version" | sort -V | head -n 1) == 3.25 ]] ||
    fail "CMake $version is too old: 3.25 is needed (Debian 12 and Ubuntu 24.04 have it)"
}

# clang_tool NAME WHY: prints the command of NAME's version 14, which Debian 12 and Ubuntu 24.04 both have. Installs it
# if it is missing.
clang_tool() {
  local candidate
  for candidate in "$1-14" "$1"; do
    if have_command "$candidate" && "$candidate" --version | grep -q 'version 14\.'; then
      echo "$candidate"
      return
    fi
  done
  need command "$1-14" "$1-14" "$2"
  install_missing
  echo "$1-14"
}

# ---- the machine ----------------------------------------------------------------------------------------------------
cores() { nproc 2>/dev/null || echo 2; }

have_gpu() { have_command nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# NVIDIA's packages do not put nvcc on the PATH.
have_nvcc() {
  if ! have_command nvcc && [[ -x /usr/local/cuda/bin/nvcc ]]; then export PATH=$PATH:/usr/local/cuda/bin; fi
  have_command nvcc
}

# The architecture to compile for: that of this machine's GPU, else any one, to check that the mode compiles.
cuda_architectures() {
  local found=
  if [[ -n ${TERN_CUDA_ARCHITECTURES:-} ]]; then
    found=$TERN_CUDA_ARCHITECTURES
  elif have_gpu; then
    found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | paste -sd ';')
  fi
  echo "${found:-90}"
}

# ---- where the time goes ---------------------------------------------------------------------------------------------
step_lines=() step_parts=() step_clock=0 step_processor=0

# step_done NAME: names the work since the last call, or since the script's start.
step_done() {
  local file processor
  file=$(mktemp)
  times >"$file"  # of this shell's processes; a subshell has none
  processor=$(awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' "$file")
  rm -f "$file"
  step_lines+=("$(printf '%-14s %5d s, %5d s of processor time' "$1" $((SECONDS - step_clock)) \
    $((processor - step_processor)))")
  step_clock=$SECONDS step_processor=$processor
}

# The times that step_done recorded, and the build time per part.
print_steps() {
  ((${#step_lines[@]})) || return 0
  say "Where the time went:"
  printf '  %s\n' "${step_lines[@]}" >&2
  ((${#step_parts[@]} == 0)) || printf '    %s\n' "${step_parts[@]}" >&2
}

# ---- the build ------------------------------------------------------------------------------------------------------
# configure FOLDER [-DOPTION=VALUE ...]
configure() {
  local folder=$1 generator=()
  shift
  check_cmake
  [[ -f $folder/CMakeCache.txt ]] || generator=(-G Ninja)
  cmake -S "$root" -B "$folder" "${generator[@]}" \
    ${TERN_DEPENDENCIES:+"-DCMAKE_PREFIX_PATH=$TERN_DEPENDENCIES"} "$@" >&2
}

# Options for a release whose kernels alone are optimised fully: a third less time to compile, and an operator's call
# takes a tenth longer.
quick=("-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG")

# has_targets FOLDER TARGET ...: whether FOLDER is configured to build them
has_targets() {
  local folder=$1 target
  shift
  for target in "$@"; do
    grep -qs "^build $target: phony" "$folder/build.ninja" || return 1
  done
}

# build FOLDER [TARGET ...]
build() {
  local folder=$1 targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  local log=$folder/.ninja_log before=0
  [[ ! -e $log ]] || before=$(wc -l <"$log")
  cmake --build "$folder" --parallel "${TERN_JOBS:-$(cores)}" "${targets[@]}" >&2
  [[ ! -e $log ]] || step_parts+=("of the build, in seconds of one core: $(build_parts "$before" <"$log")")
}

# build_parts LINES: times by part from Ninja's log, after its first LINES lines.
build_parts() {
  awk -F '\t' -v before="$1" '
    NR > before && NF > 3 && !seen[$1, $2, $5]++ {
      if ($4 ~ /tern_cuda\.|tern_nccl\.|tern_mpi\./) part = "plug-ins"
      else if ($4 ~ /^CMakeFiles\/tern\.dir|^libtern\./) part = "library"
      else if ($4 ~ /^tests\//) part = "tests"
      else part = "tools, examples, benchmarks"
      seconds[part] += ($2 - $1) / 1000
    }
    END { for (part in seconds) printf "%s%s %d", (count++ ? "; " : ""), part, seconds[part] }'
}

# longest_tests COUNT: of ctest's JUnit file
longest_tests() {
  sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9]*\).*/\2 \1/p' | sort -rn |
    awk -v most="$1" 'NR <= most { printf "%s%s %d", (NR > 1 ? "; " : ""), $2, $1 }'
}
