#!/usr/bin/env bash
# Builds for another machine in build-MACHINE/ and runs the tests there, on Debian: scripts/machines.sh aarch64, s390x
# or i686. That machine's libraries are unpacked into build-MACHINE/root; only the cross compiler and the emulator are
# installed here. Every source is compiled alone, so that a missing #include shows. Further arguments go to ctest:
# scripts/machines.sh s390x -R 'io|data'.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

machine=${1:-}
case $machine in
  aarch64) architecture=arm64 ;;
  s390x) architecture=s390x ;;
  i686) architecture=i386 ;;
  *) fail "expected aarch64, s390x or i686" ;;
esac
shift
folder=$root/build-$machine

need command "$machine-linux-gnu-g++" "g++-$machine-linux-gnu" "compiles for that machine"
[[ $machine == i686 ]] || need command "qemu-$machine-static" qemu-user-static "runs what was compiled"
need command cmake cmake "configures the build"
need command ninja ninja-build "runs the build"
install_missing

if [[ ! -e $folder/root/done ]]; then
  # A separate apt: the other machine's packages, and none of this one's.
  mkdir -p "$folder/apt"/{lists,archives}/partial "$folder/root"
  touch "$folder/apt/status"
  apt_for() {
    apt-get -q -o APT::Architecture=$architecture -o APT::Architectures=$architecture -o APT::Sandbox::User=root \
      -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" "$@" >&2
  }
  apt_for update
  apt_for install -y --no-install-recommends --download-only \
    libhwy-dev zlib1g-dev libjpeg-dev libpng-dev catch2 nlohmann-json3-dev libcli11-dev libstdc++6 libgomp1
  for package in "$folder/apt/archives"/*.deb; do dpkg -x "$package" "$folder/root"; done
  # Links to /lib/... lead into this machine.
  find "$folder/root" -type l -lname '/*' |
    while read -r link; do ln -sfn "$folder/root$(readlink "$link")" "$link"; done
  touch "$folder/root/done"
fi

TERN_DEPENDENCIES='' configure "$folder" -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchains/debian.cmake" \
  -DTERN_MACHINE="$machine" -DCMAKE_SYSROOT="$folder/root" -DTERN_CUDA=OFF -DTERN_BUILD_BENCHMARKS=OFF -DTERN_UNITY=OFF
build "$folder"
ctest --test-dir "$folder" --output-on-failure --parallel "${TERN_JOBS:-$(cores)}" --no-tests=error -LE package "$@"
