#pragma once
// Batch normalisation, forward and backward: statistics of each channel, then a value for each element. One kernel does
// both where a block can hold a channel; larger channels are cut into slices, gathered by one kernel and applied by a
// second.

#include "cuda/moments.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda {

// ---- what is gathered and what is applied ----
// A Pass has a State, init() and operator() as a Reducer has, and
//   Channel channel(c): what `add` needs; add<V>(state, channel, offset);
//   Channel finish(c, state, store): the statistics, stored by one thread; apply<V>(channel, offset).

template <class T>
struct BatchNormForward : MomentsReducer<T> {
  using State = Moments<T>;
  struct Channel {
    T mean, scale, shift;
  };
  T *y, *mean, *inverse_deviation, *running_mean, *running_var;
  const T *x, *weight, *bias;
  T epsilon, momentum;

  __device__ Channel channel(std::int64_t) const { return {}; }
  template <int V>
  __device__ void add(State& state, const Channel&, std::int64_t offset) const {
    MomentsReducer<T>::add_pack(state, load<V>(x + offset));
  }
  __device__ Channel finish(std::int64_t c, const State& state, bool store) const {
    const T inverse = 1 / ::sqrt(state.squares / state.count + epsilon);
    if (store) {
      mean[c] = state.mean;
      inverse_deviation[c] = inverse;
      if (running_mean != nullptr) {
        const T unbiased = state.squares / (state.count > 1 ? state.count - 1 : T(1));
        running_mean[c] = (1 - momentum) * running_mean[c] + momentum * state.mean;
        running_var[c] = (1 - momentum) * running_var[c] + momentum * unbiased;
      }
    }
    return {state.mean, weight == nullptr ? inverse : inverse * weight[c], bias == nullptr ? T(0) : bias[c]};
  }
  template <int V>
  __device__ void apply(const Channel& channel, std::int64_t offset) const {
    auto values = load<V>(x + offset);
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      values.value[lane] = (values.value[lane] - channel.mean) * channel.scale + channel.shift;
    store<V>(y + offset, values);
  }
};

template <class T>
struct BatchNormBackward {
  struct State {
    T gradient, product;  ///< the sums of grad_y and of grad_y times the normalised x
  };
  struct Channel {
    T mean, inverse, scale, gradient, product;
  };
  T *grad_x, *grad_weight, *grad_bias;
  const T *grad_y, *x, *weight, *mean, *inverse_deviation;
  T count;

  __device__ State init() const { return {0, 0}; }
  __device__ State operator()(const State& a, const State& b) const {
    return {a.gradient + b.gradient, a.product + b.product};
  }
  __device__ Channel channel(std::int64_t c) const { return {mean[c], inverse_deviation[c], 0, 0, 0}; }
  template <int V>
  __device__ void add(State& state, const Channel& channel, std::int64_t offset) const {
    const auto gradients = load<V>(grad_y + offset), values = load<V>(x + offset);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      state.gradient += gradients.value[lane];
      state.product += gradients.value[lane] * ((values.value[lane] - channel.mean) * channel.inverse);
    }
  }
  __device__ Channel finish(std::int64_t c, const State& state, bool store) const {
    if (store && grad_weight != nullptr) grad_weight[c] = state.product;
    if (store && grad_bias != nullptr) grad_bias[c] = state.gradient;
    const T inverse = inverse_deviation[c];
    return {mean[c], inverse, weight == nullptr ? inverse : inverse * weight[c], state.gradient / count,
            state.product / count};
  }
  template <int V>
  __device__ void apply(const Channel& channel, std::int64_t offset) const {
    if (grad_x == nullptr) return;
    auto gradients = load<V>(grad_y + offset);
    const auto values = load<V>(x + offset);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const T normalised = (values.value[lane] - channel.mean) * channel.inverse;
      gradients.value[lane] = channel.scale * (gradients.value[lane] - channel.gradient - normalised * channel.product);
    }
    store<V>(grad_x + offset, gradients);
  }
};

// ---- kernels ----

enum class Phase { both, gather, apply };

struct Channels {
  std::int64_t count, area, elements;  ///< elements of one channel: N * area
  Slices slices;
  Divisor<std::uint32_t> area_packs;
  bool narrow;  ///< elements fit the divisor
};

inline constexpr unsigned channel_threads = 512;

/// A block per slice of a channel whose planes are contiguous.
template <int V, class Pass>
__global__ void __launch_bounds__(channel_threads)
    planes_kernel(Channels channels, Pass pass, Phase phase, typename Pass::State* partial) {
  begin_kernel();
  const auto offset_of = [&](std::int64_t c, std::int64_t i) {
    const std::int64_t n =
        channels.narrow ? channels.area_packs.quotient(static_cast<std::uint32_t>(i / V)) : i / channels.area;
    return (n * (channels.count - 1) + c) * channels.area + i;
  };
  for (std::int64_t item = blockIdx.x; item < channels.count * channels.slices.count; item += gridDim.x) {
    const std::int64_t c = item / channels.slices.count, slice = item % channels.slices.count;
    const std::int64_t begin = slice * channels.slices.slice;
    const std::int64_t end = min(begin + channels.slices.slice, channels.elements);
    auto state = pass.init();
    if (phase == Phase::apply) {
      if (threadIdx.x < channels.slices.count) state = partial[c * channels.slices.count + threadIdx.x];
    } else {
      const auto channel = pass.channel(c);
#pragma unroll 2
      for (std::int64_t i = begin + threadIdx.x * V; i < end; i += blockDim.x * V)
        pass.template add<V>(state, channel, offset_of(c, i));
    }
    state = reduce_block(state, pass);
    if (phase == Phase::gather) {
      if (threadIdx.x == 0) partial[item] = state;
      continue;
    }
    const auto channel = pass.finish(c, state, threadIdx.x == 0 && slice == 0);
    for (std::int64_t i = begin + threadIdx.x * V; i < end; i += blockDim.x * V)
      pass.template apply<V>(channel, offset_of(c, i));
  }
}

/// Channels of single elements ([N, C]): 32 neighbouring channels by blockDim.y rows, as planes would not coalesce.
template <class Pass>
__global__ void __launch_bounds__(channel_threads)
    points_kernel(Channels channels, Pass pass, Phase phase, typename Pass::State* partial) {
  begin_kernel();
  using State = typename Pass::State;
  __shared__ alignas(16) unsigned char storage[channel_threads * sizeof(State)];
  State(*const shared)[32] = reinterpret_cast<State(*)[32]>(storage);
  const std::int64_t tiles = (channels.count + 31) / 32;
  for (std::int64_t item = blockIdx.x; item < tiles * channels.slices.count; item += gridDim.x) {
    const std::int64_t c = item / channels.slices.count * 32 + threadIdx.x, slice = item % channels.slices.count;
    const std::int64_t begin = slice * channels.slices.slice + threadIdx.y;
    const std::int64_t end = c < channels.count ? min((slice + 1) * channels.slices.slice, channels.elements) : 0;
    State state = pass.init();
    if (c < channels.count) {
      if (phase == Phase::apply) {
        for (std::int64_t i = threadIdx.y; i < channels.slices.count; i += blockDim.y)
          state = pass(state, partial[c * channels.slices.count + i]);
      } else {
        const auto channel = pass.channel(c);
        for (std::int64_t i = begin; i < end; i += blockDim.y)
          pass.template add<1>(state, channel, i * channels.count + c);
      }
    }
    shared[threadIdx.y][threadIdx.x] = state;
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half)
        shared[threadIdx.y][threadIdx.x] =
            pass(shared[threadIdx.y][threadIdx.x], shared[threadIdx.y + half][threadIdx.x]);
    }
    __syncthreads();
    state = shared[0][threadIdx.x];
    __syncthreads();
    if (c >= channels.count) continue;
    if (phase == Phase::gather) {
      if (threadIdx.y == 0) partial[c * channels.slices.count + slice] = state;
      continue;
    }
    const auto channel = pass.finish(c, state, threadIdx.y == 0 && slice == 0);
    for (std::int64_t i = begin; i < end; i += blockDim.y) pass.template apply<1>(channel, i * channels.count + c);
  }
}

/// Runs a pass over [N, C, area]. `packable` says that the pass's pointers are aligned for packs.
template <class T, class Pass>
void over_channels(Context& context, const kernels::BatchNorm& sizes, bool packable, const Pass& pass) {
  using State = typename Pass::State;
  constexpr int V = pack_size<T>;
  const std::int64_t elements = sizes.N * sizes.area;
  if (sizes.C == 0) return;
  const bool points = sizes.area == 1;
  packable = packable && sizes.area % V == 0;
  const std::int64_t tiles = points ? ceil_div(sizes.C, 32) : sizes.C;
  Channels channels{.count = sizes.C,
                    .area = sizes.area,
                    .elements = elements,
                    .slices = {1, elements},
                    .area_packs = Divisor<std::uint32_t>(packable ? sizes.area / V : sizes.area),
                    .narrow = elements < (std::int64_t{1} << 31)};
  const std::int64_t alone = points ? 1024 : 16384;  // a block's share that is not worth a second kernel
  if (elements > alone && tiles < 256) {
    const std::int64_t count = std::min<std::int64_t>({1024 / tiles, ceil_div(elements, alone / 4), channel_threads});
    const std::int64_t slice = ceil_div(ceil_div(elements, std::max<std::int64_t>(count, 1)), 16) * 16;
    channels.slices = {ceil_div(elements, slice), slice};
  }
  const std::int64_t slices = channels.slices.count;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles * slices, 1 << 30));
  const Grid grid = points ? Grid(blocks, dim3(32, channel_threads / 32)) : Grid(blocks, channel_threads);
  const auto kernel = points ? points_kernel<Pass> : packable ? planes_kernel<V, Pass> : planes_kernel<1, Pass>;
  if (slices == 1) {
    State* const none = nullptr;
    launch(context, grid, kernel, channels, pass, Phase::both, none);
    return;
  }
  Scratch partial(context, static_cast<std::size_t>(sizes.C * slices) * sizeof(State));
  launch(context, grid, kernel, channels, pass, Phase::gather, partial.as<State>());
  launch(context, grid, kernel, channels, pass, Phase::apply, partial.as<State>());
}

}  // namespace tern::cuda
