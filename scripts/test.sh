#!/usr/bin/env bash
# Builds everything in build/ and runs every test, from a bare Debian 12 or Ubuntu 24.04: installs missing packages
# first. Arguments go to ctest: scripts/test.sh -L package, scripts/test.sh -R operators.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

need_to_build
want_images
want_mpi
need header catch2 catch2 "Catch2, for the tests"
need header nlohmann/json.hpp nlohmann-json3-dev "JSON, for the benchmarks and tests"
want header dlpack/dlpack.h libdlpack-dev
want header protozero/pbf_reader.hpp libprotozero-dev
need header benchmark/benchmark.h libbenchmark-dev "Google Benchmark, for the benchmarks"
want command ccache ccache
need command pkg-config pkg-config "the test of the installed tern.pc"
install_missing
step_done packages

options=(-DTERN_BUILD_TESTS=ON -DTERN_BUILD_EXAMPLES=ON -DTERN_BUILD_BENCHMARKS=ON -DTERN_BUILD_TOOLS=ON
         -DTERN_SIMD_TARGETS=all -DTERN_UNITY=ON "${quick[@]}")
if have_command ccache; then
  # The tests of the package build the library once more, within another project, by the same commands; ctest changes
  # the locale.
  export CCACHE_DIR=$root/build/ccache CCACHE_DEPEND=1 CCACHE_SLOPPINESS=locale
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
if have_nvcc; then
  options+=(-DTERN_CUDA=AUTO "-DTERN_CUDA_ARCHITECTURES=$(cuda_architectures)")
  # Without a GPU only compilation can be checked, which half the time suffices for.
  quick_ptxas=-O0
  [[ $(nvcc --help) != *--Ofast-compile* ]] || quick_ptxas=-O0,-Ofc=max
  have_gpu || options+=("-DCMAKE_CUDA_FLAGS_RELEASE=-O1 -DNDEBUG -Xcicc -O0 -Xptxas $quick_ptxas")
else
  options+=(-DTERN_CUDA=OFF)
fi
trap print_steps EXIT
configure "$root/build" "${options[@]}"
step_done configuration
build "$root/build"
step_done build
passed=0
ctest --test-dir "$root/build" --output-on-failure --parallel "${TERN_JOBS:-$(cores)}" --no-tests=error \
  --output-junit "$root/build/tests.xml" "$@" || passed=1
step_done tests
[[ ! -e $root/build/tests.xml ]] ||
  step_parts+=("the longest tests, in seconds: $(longest_tests 8 <"$root/build/tests.xml")")
exit $passed
