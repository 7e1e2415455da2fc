#!/usr/bin/env bash
# Trains the CNN on MNIST in the fastest available mode, from a bare Debian 12 or Ubuntu 24.04: installs missing
# packages, builds what it needs in build/, trains. Options go to the example: scripts/mnist.sh --help lists them.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=$root/build

need_to_build
if [[ " $* " == *" --download "* ]]; then
  have_command wget || need command curl curl "fetches MNIST"
  need file /etc/ssl/certs/ca-certificates.crt ca-certificates "certificates for the download"
fi
install_missing

step_done packages

targets=(mnist_cnn)
# For this machine only, from scratch.
options=(-DTERN_BUILD_TESTS=OFF -DTERN_BUILD_EXAMPLES=ON -DTERN_BUILD_BENCHMARKS=OFF -DTERN_BUILD_TOOLS=OFF
         -DTERN_SIMD_TARGETS=native -DTERN_UNITY=ON "${quick[@]}")
if have_gpu && have_nvcc; then
  targets+=(tern_cuda)
  options+=(-DTERN_CUDA=AUTO "-DTERN_CUDA_ARCHITECTURES=$(cuda_architectures)")
else
  have_gpu &&
    say "There is a GPU but no nvcc: the cuda mode is left out. NVIDIA's cuda-toolkit (12 or later) brings it."
  options+=(-DTERN_CUDA=OFF)
fi
# A folder that scripts/test.sh configured has these targets, and keeps its own options.
has_targets "$folder" "${targets[@]}" || configure "$folder" "${options[@]}"
has_targets "$folder" tern_cuda || targets=(mnist_cnn)
step_done configuration
build "$folder" "${targets[@]}"
step_done build
print_steps

# Uses digits that are beside the tree unless an option names others.
data=()
if [[ -z ${TERN_DATA_DIR:-} && -d $root/../shared/data/mnist && ! " $* " =~ " --"(data|download|synthetic)[=\ ] ]]; then
  data=(--data "$root/../shared/data/mnist")
fi
exec "$folder/examples/mnist_cnn" "${data[@]}" "$@"
