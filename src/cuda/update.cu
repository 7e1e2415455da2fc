#include <limits>

#include "cuda/aside.cuh"
#include "cuda/branches.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "tern/kernels/update.hpp"

namespace tern::cuda {
namespace {

using kernels::Adam;
using kernels::Parameters;
using kernels::Sgd;

/// As many tensors as fit the 4 KiB of arguments that every launch may carry.
inline constexpr int tensors_per_launch = 88;

template <class T>
struct Tensors {
  T* value[tensors_per_launch];
  const T* gradient[tensors_per_launch];
  Scalar<T>* first[tensors_per_launch];
  Scalar<T>* second[tensors_per_launch];
  std::int64_t size[tensors_per_launch];
  std::int32_t first_block[tensors_per_launch];  ///< blocks before this tensor's
  std::int32_t count, blocks;
};

inline constexpr int update_threads = 256;
/// Elements of one block: two packs per thread.
template <class T>
inline constexpr std::int64_t block_elements = 2 * pack_size<T>* update_threads;

/// The tensor that a block works on.
template <class T>
__device__ int tensor_of(const Tensors<T>& tensors, std::int32_t block) {
  int low = 0, high = tensors.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tensors.first_block[middle] <= block)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Applies rule(value, gradient, first, second) to the elements of [begin, end), two packs at a time, so that their
/// loads overlap. Null states read as 0.
template <int V, class T, class Rule>
__device__ void update_block(T* value, const T* gradient, Scalar<T>* first, Scalar<T>* second, std::int64_t begin,
                             std::int64_t end, const Rule& rule) {
  constexpr int packs = 2;
  for (std::int64_t start = begin + threadIdx.x * V; start < end; start += packs * update_threads * V) {
    Pack<Scalar<T>, V> values[packs], gradients[packs], firsts[packs]{}, seconds[packs]{};
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const std::int64_t i = start + k * update_threads * V;
      if (i >= end) break;
      values[k] = load<V>(value + i);
      gradients[k] = load<V>(gradient + i);
      if (first != nullptr && rule.reads_state) firsts[k] = load<V>(first + i);
      if (second != nullptr && rule.reads_state) seconds[k] = load<V>(second + i);
    }
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const std::int64_t i = start + k * update_threads * V;
      if (i >= end) break;
#pragma unroll
      for (int lane = 0; lane < V; ++lane)
        rule(values[k].value[lane], gradients[k].value[lane], firsts[k].value[lane], seconds[k].value[lane]);
      store<V>(value + i, values[k]);
      if (first != nullptr) store<V>(first + i, firsts[k]);
      if (second != nullptr) store<V>(second + i, seconds[k]);
    }
  }
}

/// One block's elements of a tensor: packs from `begin` to `whole`, then single ones.
template <class T>
struct Part {
  T* value;
  const T* gradient;
  Scalar<T>*first, *second;
  std::int64_t begin, whole, end;

  /// Empty if the tensors have no such block.
  __device__ Part(const Tensors<T>& tensors, std::int32_t block) {
    const int which = tensor_of(tensors, block);
    value = tensors.value[which];
    gradient = tensors.gradient[which];
    first = tensors.first[which];
    second = tensors.second[which];
    begin = (block - tensors.first_block[which]) * block_elements<T>;
    end = block < tensors.blocks ? min(begin + block_elements<T>, tensors.size[which]) : begin;
    constexpr int V = pack_size<T>;
    const auto addresses = reinterpret_cast<std::uintptr_t>(value) | reinterpret_cast<std::uintptr_t>(gradient) |
                           reinterpret_cast<std::uintptr_t>(first) | reinterpret_cast<std::uintptr_t>(second);
    whole = addresses % sizeof(Pack<T, V>) == 0 ? begin + (end - begin) / V * V : begin;
  }

  template <class Rule>
  __device__ void update(const Rule& rule) const {
    update_block<pack_size<T>>(value, gradient, first, second, begin, whole, rule);
    update_block<1>(value, gradient, first, second, whole, end, rule);
  }
};

/// The first part is found before begin_kernel(): the search waits for an argument several times.
template <class T, class Rule>
__device__ void update_tensors(const Tensors<T>& tensors, Part<T> part, const Rule& rule) {
  for (auto block = static_cast<std::int32_t>(blockIdx.x);;) {
    part.update(rule);
    block += static_cast<std::int32_t>(gridDim.x);
    if (block >= tensors.blocks) return;
    part = Part<T>(tensors, block);
  }
}

template <class T>
struct SgdRule {
  T learning_rate, momentum, dampened, weight_decay;  ///< dampened: 1 - dampening
  bool nesterov, keeps, reads_state;
  bool skips = false;  ///< the first momentum of a step that does not apply
  __device__ void operator()(T& value, T gradient, T& velocity, T&) const {
    if (skips) {
      velocity = 0;
      return;
    }
    T step = gradient + weight_decay * value;
    if (keeps) {
      velocity = reads_state ? momentum * velocity + dampened * step : step;
      step = nesterov ? step + momentum * velocity : velocity;
    }
    value -= learning_rate * step;
  }
};

template <class T>
struct SgdArguments {
  Tensors<T> tensors;
  const Scalar<T>* learning_rate;
  SgdRule<Scalar<T>> rule;
};

template <class T, bool Shared>
__global__ void __launch_bounds__(update_threads)
    sgd_kernel(const __grid_constant__ KernelArguments<SgdArguments<T>, Shared> passed) {
  const SgdArguments<T>& mine = passed.mine();
  const Part<T> part(mine.tensors, static_cast<std::int32_t>(blockIdx.x));
  begin_kernel();
  auto rule = mine.rule;
  rule.learning_rate = *mine.learning_rate;
  rule.skips = isnan(rule.learning_rate);
  if (!rule.skips || (rule.keeps && !rule.reads_state)) update_tensors(mine.tensors, part, rule);
}

template <class T>
struct AdamRule {
  T learning_rate, beta1, beta2, rest1, rest2, epsilon, weight_decay;  ///< rest: 1 - beta
  T step_size, root;  ///< learning_rate / (1 - beta1^t) and 1 / sqrt(1 - beta2^t): one division fewer per element
  bool decoupled;
  static constexpr bool reads_state = true;
  __device__ void operator()(T& value, T gradient, T& first, T& second) const {
    if (decoupled)
      value -= learning_rate * weight_decay * value;
    else
      gradient += weight_decay * value;
    first = beta1 * first + rest1 * gradient;
    second = beta2 * second + rest2 * gradient * gradient;
    value -= step_size * first / (::sqrt(second) * root + epsilon);
  }
};

/// While the last launch of a step runs, the upper half of `step` counts the blocks that have read it; the last one
/// stores the new step. So one kernel can read the old value everywhere and still replace it.
inline constexpr std::int64_t step_mask = 0xffffffffll;

/// base^exponent by squaring: much faster than pow, and as exact as 1 - beta^t requires.
__device__ double whole_power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 != 0) result *= base;
  }
  return result;
}

template <class T>
struct AdamArguments {
  Tensors<T> tensors;
  const Scalar<T>* learning_rate;
  std::int64_t* step;
  AdamRule<Scalar<T>> rule;
  double beta1, beta2;
  bool last;
};

template <class T, bool Shared>
__global__ void __launch_bounds__(update_threads)
    adam_kernel(const __grid_constant__ KernelArguments<AdamArguments<T>, Shared> passed) {
  const AdamArguments<T>& mine = passed.mine();
  const Part<T> part(mine.tensors, static_cast<std::int32_t>(blockIdx.x));
  begin_kernel();
  auto rule = mine.rule;
  rule.learning_rate = *mine.learning_rate;
  if (isnan(rule.learning_rate)) return;
  __shared__ Scalar<T> corrections[2];
  if (threadIdx.x < 2) {
    const std::int64_t t = (*static_cast<volatile std::int64_t*>(mine.step) & step_mask) + 1;
    corrections[threadIdx.x] = static_cast<Scalar<T>>(1 - whole_power(threadIdx.x == 0 ? mine.beta1 : mine.beta2, t));
    __syncwarp(3);  // both have read the step
    if (mine.last && threadIdx.x == 0) {
      __threadfence();
      const auto before = atomicAdd(reinterpret_cast<unsigned long long*>(mine.step), 1ull << 32);
      if (before >> 32 == gridDim.x - 1) *static_cast<volatile std::int64_t*>(mine.step) = t;
    }
  }
  __syncthreads();
  rule.step_size = rule.learning_rate / corrections[0];
  rule.root = 1 / ::sqrt(corrections[1]);
  update_tensors(mine.tensors, part, rule);
}

/// Calls `start(tensors, blocks, last)` for every launch that it needs. With `always`, at least once.
template <class T, class Start>
void for_chunks(const Context& context, const Parameters<T>& parameters, bool always, Start start) {
  Tensors<T> tensors{};
  // Early ones are short, so that they give way to other work.
  const std::int32_t most_blocks =
      goes_early(context.stream) ? std::numeric_limits<std::int32_t>::max() : card().multiprocessors * 8;
  const auto flush = [&](bool last) {
    if (tensors.blocks > 0 || (last && always))
      start(tensors, static_cast<unsigned>(std::clamp(tensors.blocks, 1, most_blocks)), last);
    tensors.count = tensors.blocks = 0;
  };
  for (std::int64_t i = 0; i < parameters.count; ++i) {
    // A tensor of 2^31 blocks or more is launched in pieces.
    constexpr std::int64_t most = (std::int64_t{1} << 30) * block_elements<T>;
    for (std::int64_t begin = 0; begin < parameters.size[i]; begin += most) {
      const std::int64_t size = std::min(parameters.size[i] - begin, most);
      const std::int64_t blocks = ceil_div(size, block_elements<T>);
      if (tensors.count == tensors_per_launch || tensors.blocks + blocks > (std::int64_t{1} << 30)) flush(false);
      const std::int32_t at = tensors.count++;
      const auto state = [&](Scalar<T>* const* states) {
        return states == nullptr || states[i] == nullptr ? nullptr : states[i] + begin;
      };
      tensors.value[at] = parameters.value[i] + begin;
      tensors.gradient[at] = parameters.gradient[i] + begin;
      tensors.first[at] = state(parameters.first);
      tensors.second[at] = state(parameters.second);
      tensors.size[at] = size;
      tensors.first_block[at] = tensors.blocks;
      tensors.blocks += static_cast<std::int32_t>(blocks);
    }
  }
  flush(true);
}

// ---- the slots ----

template <class T>
void sgd(Context& context, const Parameters<T>& parameters, const Scalar<T>* learning_rate, const Sgd& sizes) {
  using S = Scalar<T>;
  const bool keeps = parameters.first != nullptr;
  const SgdRule<S> rule{.learning_rate = 0,
                        .momentum = static_cast<S>(sizes.momentum),
                        .dampened = static_cast<S>(1 - sizes.dampening),
                        .weight_decay = static_cast<S>(sizes.weight_decay),
                        .nesterov = sizes.nesterov,
                        .keeps = keeps,
                        .reads_state = keeps && !sizes.first_step};
  for_chunks(context, parameters, false, [&](const Tensors<T>& tensors, unsigned blocks, bool) {
    launch_shared(context, Grid(blocks, update_threads), SgdArguments<T>{tensors, learning_rate, rule},
                  [](auto shared) { return sgd_kernel<T, shared>; });
  });
}

template <class T>
void adam(Context& context, const Parameters<T>& parameters, const Scalar<T>* learning_rate, std::int64_t* step,
          const Adam& sizes) {
  using S = Scalar<T>;
  const AdamRule<S> rule{.learning_rate = 0,
                         .beta1 = static_cast<S>(sizes.beta1),
                         .beta2 = static_cast<S>(sizes.beta2),
                         .rest1 = static_cast<S>(1 - sizes.beta1),
                         .rest2 = static_cast<S>(1 - sizes.beta2),
                         .epsilon = static_cast<S>(sizes.epsilon),
                         .weight_decay = static_cast<S>(sizes.weight_decay),
                         .step_size = 0,
                         .root = 0,
                         .decoupled = sizes.decoupled};
  for_chunks(context, parameters, true, [&](const Tensors<T>& tensors, unsigned blocks, bool last) {
    launch_shared(context, Grid(blocks, update_threads),
                  AdamArguments<T>{tensors, learning_rate, step, rule, sizes.beta1, sizes.beta2, last},
                  [](auto shared) { return adam_kernel<T, shared>; });
  });
}

}  // namespace

template <class T>
kernels::Update<T> update() {
  return {.sgd = sgd<T>, .adam = adam<T>};
}
template kernels::Update<float> update<float>();
template kernels::Update<double> update<double>();
template kernels::Update<BFloat16> update<BFloat16>();
template kernels::Update<Float16> update<Float16>();

}  // namespace tern::cuda
