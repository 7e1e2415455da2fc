#pragma once
// The basis of all files of the cuda mode: checked calls, the cards' properties, launches, and the fault cell.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

#include "tern/core/error.hpp"
#include "tern/kernels/context.hpp"

namespace tern::cuda {

// ---- checked calls ----

/// Throws OutOfMemory or Error with the sentence, the runtime's reason and the location; clears the sticky error.
[[noreturn]] void fail(cudaError_t status, const char* doing, const std::source_location& where);

/// `check(cudaEventRecord(event, stream), "recording an event")`.
inline void check(cudaError_t status, const char* doing,
                  const std::source_location& where = std::source_location::current()) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, doing, where);
}

// ---- cards ----

struct Card {
  std::string name;
  int multiprocessors = 1;
  std::size_t shared_per_block = 48 * 1024;  ///< the most dynamic shared memory that a block may request
  std::size_t memory = 0;
  int device = 0;  ///< its number
  /// The compute capability, times ten, that the loaded kernels were compiled for: __CUDA_ARCH__ / 10. A newer card
  /// runs the code for an older one, which lacks newer features, so kernels are chosen and launched by this.
  int code = 0;
  bool doubles = false;  ///< tensor cores multiply doubles at half the rate of floats: code for 9.0 and later
  bool overlap = false;  ///< the kernels have programmatic dependent launch and clusters: code for 9.0 and later
  int capability = 0;    ///< its own compute capability, times ten
  float clock = 1000;    ///< cycles per microsecond
};
inline constexpr int most_cards = 64;
/// The number of cards; any beyond the maximum are ignored.
int card_count();
/// The card of that number, read once, which starts it.
const Card& card(int device);
/// The thread's current card: that of its last use_card(), in a kernel that of its context; initially the first.
const Card& card();
/// Makes this card current for the thread's calls of the runtime and its libraries: new memory, streams, events and
/// handles belong to it, and its streams accept kernels. With a single card it costs nothing.
void use_card(int device);

// ---- streams ----

/// What kernels report about the values they read; the next wait on the stream throws it as NumericError.
enum class Fault : int { none = 0, label, index, divisor };
struct FaultCell {
  int kind;  ///< a Fault
  int unused;
  long long value, limit;
};

/// The stream on which the context's work is queued.
cudaStream_t stream_of(const Context& context);
/// Whether work queued on the context's stream is recorded instead of run.
bool recording(const Context& context);
/// Where kernels on this stream report; pass it as a kernel argument. Host memory that the card can write.
FaultCell* fault_cell(const Context& context);

// ---- kernels ----

/// Call it in EVERY kernel, in every thread, before reading or writing the card's memory: a launch overlaps with the
/// end of the previous kernel (programmatic dependent launch), whose work is complete and visible only from here on.
/// What comes before costs nothing while that kernel runs: KernelArguments::mine(), work distribution, the first access
/// to the arguments.
__device__ __forceinline__ void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Reports that `value` is outside [0, limit), or is a divisor of 0. Any thread may call it; one of the reports is
/// kept.
__device__ __forceinline__ void report(FaultCell* cell, Fault kind, long long value, long long limit) {
  volatile FaultCell* written = cell;
  written->value = value;
  written->limit = limit;
  __threadfence_system();
  written->kind = static_cast<int>(kind);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Blocks for a grid-stride loop over n elements, `per_block` of them per block and iteration: enough to fill the card
/// several times over, never more.
inline unsigned blocks_for(std::int64_t n, std::int64_t per_block = 256) {
  const std::int64_t most = static_cast<std::int64_t>(card().multiprocessors) * 16;
  const std::int64_t wanted = ceil_div(n, per_block);
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

/// The shape of a launch.
struct Grid {
  dim3 blocks, threads;
  std::size_t shared;    ///< bytes of dynamic shared memory
  unsigned cluster = 1;  ///< blocks (along x) of a thread block cluster; 1 unless card().overlap
  std::source_location where;
  Grid(dim3 grid_blocks, dim3 block_threads, std::size_t shared_bytes = 0,
       const std::source_location& place = std::source_location::current())
      : blocks(grid_blocks), threads(block_threads), shared(shared_bytes), where(place) {}
  bool empty() const { return blocks.x == 0 || blocks.y == 0 || blocks.z == 0; }
};

/// Lets a kernel use up to `bytes` of dynamic shared memory. Cheap enough for every call: cached by card and kernel.
void allow_shared(const void* kernel, std::size_t bytes);

/// launch() on a stream of the runtime.
template <class... Parameters, class... Arguments>
void launch_on(cudaStream_t queue, const Grid& grid, void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (grid.empty()) return;
  constexpr std::size_t always_allowed = 48 * 1024;
  if (grid.shared > always_allowed) allow_shared(reinterpret_cast<const void*>(kernel), grid.shared);
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (card().overlap) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    if (grid.cluster > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count].val.clusterDim.x = grid.cluster;
      attributes[count].val.clusterDim.y = 1;
      attributes[count++].val.clusterDim.z = 1;
    }
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared;
  config.stream = queue;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "launching a kernel", grid.where);
}

/// Queues a kernel on the context's stream; an empty grid does nothing. Throws when the launch itself fails.
///
///     launch(context, Grid(blocks_for(n), 256), scale_kernel<T>, out, in, n, factor);
template <class... Parameters, class... Arguments>
void launch(const Context& context, const Grid& grid, void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (!grid.empty()) launch_on(stream_of(context), grid, kernel, arguments...);
}

}  // namespace tern::cuda
