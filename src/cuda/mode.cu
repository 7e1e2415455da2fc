#include <cuda_runtime.h>

#include <string>

#include "cuda/cuda.hpp"
#include "cuda/recording.cuh"
#include "cuda/support.cuh"

namespace tern::cuda {
namespace {

__global__ void probe_kernel() {}

std::string version_name(int version) { return message(version / 1000, '.', version % 1000 / 10); }

}  // namespace

namespace {

// Why a card cannot run the mode; starts the card.
std::string why_not(int device) {
  cudaError_t loaded = cudaSetDevice(device);  // use_card() is for usable cards
  cudaFuncAttributes attributes{};
  if (loaded == cudaSuccess) loaded = cudaFuncGetAttributes(&attributes, probe_kernel);
  cudaGetLastError();
  if (loaded == cudaSuccess) return {};
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess || loaded != cudaErrorNoKernelImageForDevice)
    return message("the device does not start: ", cudaGetErrorString(loaded));
  return message("the device is too old for this build: ", properties.name, " has compute capability ",
                 properties.major, '.', properties.minor, "; configure with TERN_CUDA_ARCHITECTURES=", properties.major,
                 properties.minor, " (7.5 or later)");
}

}  // namespace

std::string why_not() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);  // leaves 0 without a driver
  cudaRuntimeGetVersion(&runtime);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (driver == 0) return "no NVIDIA driver is installed (libcuda.so.1 was not found)";
  if (status == cudaErrorInsufficientDriver)
    return message("the NVIDIA driver is too old: it supports CUDA ", version_name(driver),
                   ", this build needs that of CUDA ", version_name(runtime));
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return "the NVIDIA driver is installed but shows no device (check CUDA_VISIBLE_DEVICES and nvidia-smi)";
  if (status != cudaSuccess) return message("the NVIDIA driver does not start: ", cudaGetErrorString(status));
  return why_not(0);
}

namespace {

constexpr Decision decisions[]{
    {"conv2d",
     {"general", "depthwise", "grouped", "narrow", "direct", "direct_tensor", "implicit", "library", "fused_epilogue",
      "product", "fold", "winograd", "planes", "padded", "single"}},
    {"conv2d_grad_x",
     {"general", "depthwise", "grouped", "narrow", "direct", "direct_tensor", "implicit", "flipped", "library",
      "product", "fold", "winograd", "planes", "padded", "single"}},
    {"conv2d_grad_weight",
     {"general", "depthwise", "grouped", "narrow", "direct", "direct_tensor", "implicit", "library", "product",
      "planes", "padded", "single"}},
    {"conv2d_max_pool2d", {"fused", "composed"}},
    {"matmul", {"gemv", "sliced", "own", "library", "padded"}},
    {"linear", {"gemv", "sliced", "own", "library", "padded"}},
    {"linear_backward", {"gemv", "sliced", "own", "library", "padded"}},
    {"attention", {"streamed", "warpgroups", "fused", "composed"}},
    {"recurrent", {"one_cluster", "persistent", "clustered", "steps"}},
    {"recurrent_backward", {"one_cluster", "persistent", "clustered", "steps"}},
    {"quantized_conv2d", {"general", "depthwise", "implicit", "boxes"}},
    {"implicit_tile", {"32x32", "32x64", "64x32", "64x64", "128x64", "128x128"}},
    {"implicit_split", {"1", "2", "4", "8"}},
    {"product_tile", {"32x16", "32x32", "64x32", "64x64", "128x64", "128x128"}},
    {"product_split", {"1", "2", "4", "8"}},
    {"product_slices",
     {"16x16/16/1", "16x16/16/4", "16x16/8/2", "16x32/8/2", "32x32/16/1", "32x32/8/2", "16x64/4/2", "32x128/4/1"}},
    {"backward_slices",
     {"16x32/8+16x16/8", "16x32/8+16x32/8", "16x64/4+16x32/8", "16x128/2+16x16/8", "16x32/16+16x16/16",
      "32x32/8+16x32/8", "32x64/4+16x32/8", "32x128/2+16x32/8"}},
    {"slice_factors", {"doubles", "tf32"}},
    {"cut_rule", {"fitted", "plain"}},
    {"all_reduce", {"peers", "library"}},  // of the transport between the ranks' devices
};

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "reading the card's properties");
  return properties;
}

void require(int device) {
  const std::string reason = why_not(device);
  expects<DeviceUnavailable>(reason.empty(), "cuda:", device, " is not available: ", reason);
}

Memory& usable_memory(int device) {
  require(device);
  return memory(device);
}

std::string description(int device) {
  const cudaDeviceProp first = properties_of(0), properties = properties_of(device);
  // A card like the first, which runs the mode, need not be started to know.
  if (properties.major != first.major || properties.minor != first.minor) require(device);
  return message(properties.name, ", ", properties.multiProcessorCount, " multiprocessors, ",
                 properties.totalGlobalMem / (std::size_t{1} << 30), " GiB");
}

Mode make_mode() {
  static const Places places{.count = card_count(), .memory = usable_memory, .description = description};
  static const Capture looping = [] {  // separate from capture(), which needs no device compiler
    Capture with_loops = capture();
    with_loops.loop = launch_loop;
    return with_loops;
  }();
  Mode made{
      .name = "cuda",
      .description = description(0),
      .memory = &memory(0),
      .operators = operators<float>(),
      .float64 = operators<double>(),
      .bfloat16 = operators<BFloat16>(),
      .float16 = operators<Float16>(),
      .int32 = integer_operators<std::int32_t>(),
      .int64 = integer_operators<std::int64_t>(),
      .uint8 = integer_operators<std::uint8_t>(),
      .boolean = integer_operators<bool>(),
      .movement = movement(),
      .capture = &looping,
      .timer = &timer(),
      .places = &places,
      .decisions = decisions,
      .quantized = quantized(),
      .recurrent = recurrent(),
      .resampling = resampling(),
  };
  if (card_count() > 1) use_cards(made);
  return made;
}

}  // namespace

const Mode& mode() {
  static const Mode mode = make_mode();
  return mode;
}

}  // namespace tern::cuda
