#pragma once
// Two cards without a card, for the host code of the cuda mode: the part of the CUDA runtime that it calls, with streams
// that run on threads of their own, a little late, and captures that fail where the real ones do (tests/card/card.cpp).
// What belongs to one card and is used on the other is an error, also where the real runtime would bear it.

#include <chrono>
#include <cstddef>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeClusterDimension
};
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaStreamNonBlocking = 1,
                          cudaEventDisableTiming = 2, cudaGraphInstantiateFlagUseNodePriority = 8;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_count = 1, unsigned y_count = 1, unsigned z_count = 1) : x(x_count), y(y_count), z(z_count) {}
};
// Of the kernel that runs on the calling thread.
inline thread_local dim3 blockIdx, threadIdx;

struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  std::size_t sharedMemPerBlockOptin, totalGlobalMem;
};
struct cudaFuncAttributes {
  int ptxVersion, binaryVersion;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream);
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags);
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t status);
const char* cudaGetErrorName(cudaError_t status);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
enum cudaDeviceAttr { cudaDevAttrSingleToDoublePrecisionPerfRatio, cudaDevAttrClockRate };
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)());
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
inline void __threadfence_system() {}

namespace card {
inline constexpr int count = 2;
/// Queues work on a stream of the current card (a capturing one records it), as a kernel would be.
cudaError_t queue(cudaStream_t stream, std::function<void()> work);
/// Kernels queued since the last call.
int take_launches();
void count_launch();
/// The card whose memory holds the address; -1 for none.
int of(const void* address);
/// How often something was used on another card than its own since the last call.
int take_misuses();
/// How often an attribute of the kernel was set on a card.
int times_set(const void* kernel, int device);
/// Copies from one card to the other so far; of these, those that went straight.
int peer_copies();
int straight_copies();
/// Lets time pass on the card's clock, and nobody wait for it.
void pass(std::chrono::seconds time);
/// Events that exist now.
int live_events();
/// The next `count` calls of cudaEventRecord fail.
void fail_event_records(int count);
/// Whether streams cannot be made.
void fail_stream_creates(bool fails);
}  // namespace card

// A kernel whose threads need nothing of each other: they run one after the other.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (config->blockDim.x > 1024) return cudaErrorInvalidValue;
  card::count_launch();
  return card::queue(config->stream, [blocks = config->gridDim, threads = config->blockDim, kernel, arguments...] {
    for (blockIdx.z = 0; blockIdx.z < blocks.z; ++blockIdx.z)
      for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x)
          for (threadIdx.x = 0; threadIdx.x < threads.x; ++threadIdx.x) kernel(arguments...);
  });
}
