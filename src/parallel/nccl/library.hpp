#pragma once
// Loads libnccl.so.2 at run time; checks the results of its calls and CUDA's.

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <string>

#include "tern/core/error.hpp"

namespace tern::parallel {

/// The functions of NCCL that are used.
struct Library {
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclCommSplit) split = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  std::string missing = {};  // why it cannot be used

  Library() {
    void* const opened = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) {
      const char* const error = dlerror();
      missing = message("NCCL could not be loaded: ", error != nullptr ? error : "unknown reason");
      return;
    }
    const auto find = [&]<class Function>(Function& function, const char* name) {
      function = reinterpret_cast<Function>(dlsym(opened, name));
      if (function == nullptr && missing.empty()) missing = message("libnccl.so.2 has no ", name, "; it is too old");
    };
    find(error_string, "ncclGetErrorString");
    find(unique_id, "ncclGetUniqueId");
    find(init_rank, "ncclCommInitRank");
    find(split, "ncclCommSplit");
    find(destroy, "ncclCommDestroy");
    find(abort, "ncclCommAbort");
    find(all_reduce, "ncclAllReduce");
    find(broadcast, "ncclBroadcast");
    find(reduce_scatter, "ncclReduceScatter");
    find(all_gather, "ncclAllGather");
    find(send, "ncclSend");
    find(receive, "ncclRecv");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
  }
};

inline const Library& library() {
  static const Library library;
  return library;
}

inline void check(const char* call, ncclResult_t result) {
  if (result != ncclSuccess) throw ParallelError(message("nccl: ", call, ": ", library().error_string(result)));
}

inline void check(const char* call, cudaError_t status) {
  if (status != cudaSuccess) throw ParallelError(message("nccl: ", call, ": ", cudaGetErrorString(status)));
}
inline void check(const char* call, int status) { check(call, static_cast<cudaError_t>(status)); }

}  // namespace tern::parallel
