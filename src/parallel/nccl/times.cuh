#pragma once
// How kernels write Times.

#include "parallel/nccl/meter.hpp"

namespace tern::parallel {

__device__ inline std::uint64_t device_now() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Adds the wait that ended with the work before the last join.
__host__ __device__ inline void settle(Times& times) {
  if (times.joined != 0 && times.ended > times.joined) times.waited += times.ended - times.joined;
  times.joined = 0;
}

/// Called by one thread, before the work.
__device__ inline void begin_count(const Counting& counting) {
  if (counting.times == nullptr) return;
  if (counting.first) settle(*counting.times);
  counting.times->began = device_now();
}

/// Called by one thread, after the work.
__device__ inline void end_count(const Counting& counting) {
  if (counting.times == nullptr) return;
  Times& times = *counting.times;
  times.ended = device_now();
  times.busy += times.ended - times.began;
  if (counting.alone) times.waited += times.ended - times.began;
}

}  // namespace tern::parallel
