#pragma once
// Branches of a recording that queue the same kernels in the same order, such as equal models that train concurrently,
// share their launches: a block uses the arguments of its branch.

#include <cstring>
#include <type_traits>
#include <vector>

#include "cuda/support.cuh"

namespace tern::cuda {

/// The arguments of a kernel whose launches branches may share.
template <class Arguments, bool Shared>
struct KernelArguments {
  Arguments arguments;
  __device__ __forceinline__ const Arguments& mine() const { return arguments; }
};

/// For a shared launch, whose grid's third dimension counts the branches: one element per branch.
template <class Arguments>
struct KernelArguments<Arguments, true> {
  const Arguments* of_branches;
  /// The arguments of this block's branch. For all threads of the block, before begin_kernel(): they were written
  /// before any replay, so they can be read while the previous kernel still runs.
  __device__ __forceinline__ const Arguments& mine() const {
#ifdef __CUDA_ARCH__
    using Word = unsigned long long;
    static_assert(sizeof(Arguments) % sizeof(Word) == 0 && alignof(Arguments) == alignof(Word));
    constexpr unsigned words = sizeof(Arguments) / sizeof(Word);
    __shared__ Word here[words];
    const auto* const from = reinterpret_cast<const Word*>(of_branches + blockIdx.z);
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) here[i] = from[i];
    __syncthreads();
    return *reinterpret_cast<const Arguments*>(here);
#else
    return of_branches[blockIdx.z];
#endif
  }
};

/// A launch of a branch that waits for the equal launches of the other branches.
struct Waiting {
  const void* kernel;
  Grid grid;
  std::vector<std::byte> arguments;
  /// Queues it separately or, with the arguments of several branches on the card, for all of them.
  void (*launch)(cudaStream_t queue, const Waiting& waiting, const std::byte* on_card, std::size_t branches);
};

/// What the thread has queued between two calls of next_branch().
struct Branch {
  std::vector<Waiting> waiting;
  bool waits = true;  ///< until something is queued that cannot wait: later work must not overtake it
};

/// Whether a launch may wait until the branches join: the context's stream has branches, and the last of them waits.
bool may_wait(const Context& context);
void keep_waiting(Waiting waiting);

template <class Arguments, class KernelOf>
void launch_waiting(cudaStream_t queue, const Waiting& waiting, const std::byte* on_card, std::size_t branches) {
  Grid grid = waiting.grid;
  if (on_card != nullptr) {
    grid.blocks.z = static_cast<unsigned>(branches);
    launch_on(queue, grid, KernelOf{}(std::true_type{}),
              KernelArguments<Arguments, true>{reinterpret_cast<const Arguments*>(on_card)});
    return;
  }
  KernelArguments<Arguments, false> passed;
  std::memcpy(&passed.arguments, waiting.arguments.data(), sizeof(Arguments));
  launch_on(queue, grid, KernelOf{}(std::false_type{}), passed);
}

/// launch() of a kernel that branches may share. kernel_of(std::bool_constant<Shared>) is the one that takes
/// KernelArguments<Arguments, Shared>; it captures nothing.
///
///     launch_shared(context, grid, arguments, [](auto shared) { return scale_kernel<T, shared>; });
template <class Arguments, class KernelOf>
void launch_shared(const Context& context, const Grid& grid, const Arguments& arguments, KernelOf kernel_of) {
  static_assert(std::is_trivially_copyable_v<Arguments> && std::is_empty_v<KernelOf>);
  const auto kernel = kernel_of(std::false_type{});
  if (grid.blocks.z == 1 && !grid.empty() && may_wait(context)) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&arguments);
    keep_waiting({.kernel = reinterpret_cast<const void*>(kernel),
                  .grid = grid,
                  .arguments = {bytes, bytes + sizeof(Arguments)},
                  .launch = launch_waiting<Arguments, KernelOf>});
    return;
  }
  launch(context, grid, kernel, KernelArguments<Arguments, false>{arguments});
}

/// Whether two halves of an operator should run concurrently: while recording, outside of branches.
bool may_fork(const Context& context);
/// Work queued on the returned stream runs concurrently with the context's stream from here until join().
cudaStream_t fork(const Context& context);
void join(const Context& context);

/// Capture::branch and Capture::join. Between them stream_of() is the branch's.
void next_branch(void* stream);
void join_branches(void* stream) noexcept;
/// The stream on which work for one of our streams is queued: that stream, or the branch that is being recorded.
cudaStream_t queue_of(void* stream);

}  // namespace tern::cuda
