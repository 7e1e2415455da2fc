#pragma once
// Batch normalisation, forward and backward: statistics per channel, then a value per element. With channels first, one
// kernel does both if a block can hold a channel; larger channels are cut into slices, reduced by one kernel and
// applied by a second. With channels last, where every block would need the statistics of many channels, a third kernel
// between the two completes them.

#include "cuda/fused.cuh"
#include "cuda/moments.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda {

// ---- reduced and applied quantities ----
// A Pass has a State, init() and operator() as a Reducer has, and
//   Inputs<L>: L elements of each input; read<L>(offset) where they are neighbours; of_lane(rows, lane) one lane of
//   rows; Channel channel(c): what `add` needs; add(state, channel, inputs of that channel); Channel finish(c, state,
//   store): the statistics, stored by one thread; All<L> and all<L>(offset): what is read when the statistics are
//   known; value(channel, all, lane) for output(), which may be null.
// For threads that hold their rows from the first use to the last: held<L>(offset), All<L> before the statistics are
//   known; keep(offset, held): what reading stores; add_held(state, channel, rows, count, lane): of the first rows.

/// In this order, inverse * scale may be out of T's range. The bits are the same wherever it is computed.
template <class T>
__device__ __forceinline__ T normalised(T x, T mean, T inverse, T scale, T shift) {
  return ::fma((x - mean) * inverse, scale, shift);
}

/// Applied after the normalisation.
template <class T, bool HasAdded>
struct Following {
  using S = Scalar<T>;
  const T* added;
  Activation activation;

  template <int L>
  struct Inputs {
    Pack<S, L> added;
  };
  template <int L>
  __device__ Inputs<L> read(std::int64_t offset) const {
    if constexpr (HasAdded) return {load<L>(added + offset)};
    return {};
  }
  template <int L>
  __device__ S value(S normal, const Inputs<L>& inputs, int lane) const {
    const S sum = HasAdded ? normal + inputs.added.value[lane] : normal;
    return activation == Activation::none ? sum : clip(sum, activation);
  }
};

template <class T, bool HasAdded>
struct BatchNormForward : MomentsReducer<Scalar<T>> {
  using S = Scalar<T>;
  using State = Moments<S>;
  struct Channel {
    S mean, inverse, scale, shift;
  };
  T* y;
  S *mean, *inverse_deviation, *running_mean, *running_var;
  const T* x;
  const S *weight, *bias;
  Following<T, HasAdded> following;
  S epsilon, momentum;
  std::int64_t images, area;                         ///< of which each channel has elements
  std::int64_t image_step, channel_step, area_step;  ///< strides, in elements

  static constexpr int rows_at_once = 8;  // columns: loads in flight
  template <int L>
  struct Inputs {
    Pack<S, L> x;
  };
  template <int L>
  __device__ Inputs<L> read(std::int64_t offset) const {
    return {load<L>(x + offset)};
  }
  template <int Rows, int L>
  static __device__ Inputs<Rows> of_lane(const Inputs<L> (&rows)[Rows], int lane) {
    Inputs<Rows> inputs;
#pragma unroll
    for (int row = 0; row < Rows; ++row) inputs.x.value[row] = rows[row].x.value[lane];
    return inputs;
  }
  __device__ Channel channel(std::int64_t) const { return {}; }
  template <int L>
  __device__ void add(State& state, const Channel&, const Inputs<L>& inputs) const {
    MomentsReducer<S>::add_pack(state, inputs.x);
  }
  /// For a channel whose squares leave T's range; by one thread.
  __device__ __noinline__ Moments<double> exact_moments(std::int64_t c) const {
    Moments<double> moments{static_cast<double>(images * area), 0, 0};
    moments.mean = sum_of(c, [](double value) { return value; }) / moments.count;
    moments.squares = sum_of(c, [mean = moments.mean](double value) { return (value - mean) * (value - mean); });
    return moments;
  }
  /// The sum of term(x) in order, up to the first NaN. Loads are issued early, because one thread does it all.
  template <class Term>
  __device__ double sum_of(std::int64_t c, const Term& term) const {
    constexpr int ahead = 16;
    double sum = 0;
    std::int64_t n = 0, i = 0;
    while (n < images && !::isnan(sum)) {
      S values[ahead];
      int count = 0;
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (n == images) continue;
        values[k] = widened(x[n * image_step + c * channel_step + i * area_step]);
        ++count;
        if (++i < area) continue;
        i = 0;
        ++n;
      }
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (k < count) sum += term(static_cast<double>(values[k]));
    }
    return sum;
  }
  __device__ Channel finish(std::int64_t c, State state, bool store) const {
    S inverse = 1 / ::sqrt(state.squares / state.count + epsilon);
    if (!::isfinite(state.squares)) {
      const Moments<double> exact = exact_moments(c);
      state.mean = static_cast<S>(exact.mean);
      state.squares = static_cast<S>(exact.squares);
      inverse = static_cast<S>(1 / ::sqrt(exact.squares / exact.count + epsilon));
    }
    if (store) {
      mean[c] = state.mean;
      inverse_deviation[c] = inverse;
      if (running_mean != nullptr) {
        const S unbiased = state.squares / (state.count > 1 ? state.count - 1 : S(1));
        running_mean[c] = (1 - momentum) * running_mean[c] + momentum * state.mean;
        running_var[c] = (1 - momentum) * running_var[c] + momentum * unbiased;
      }
    }
    return {state.mean, inverse, weight == nullptr ? S(1) : weight[c], bias == nullptr ? S(0) : bias[c]};
  }
  __host__ __device__ T* output() const { return y; }
  template <int L>
  struct All {
    Pack<S, L> x;
    typename Following<T, HasAdded>::template Inputs<L> following;
  };
  template <int L>
  __device__ All<L> all(std::int64_t offset) const {
    return {load<L>(x + offset), following.template read<L>(offset)};
  }
  template <int L>
  __device__ All<L> held(std::int64_t offset) const {
    return all<L>(offset);
  }
  template <int L>
  __device__ void keep(std::int64_t, const All<L>&) const {}
  template <int Rows, int L>
  __device__ void add_held(State& state, const Channel&, const All<L> (&rows)[Rows], int count, int lane) const {
    Pack<S, Rows> of_lane;
#pragma unroll
    for (int row = 0; row < Rows; ++row) of_lane.value[row] = rows[row].x.value[lane];
    MomentsReducer<S>::add_first(state, of_lane, count);
  }
  template <int L>
  __device__ S value(const Channel& channel, const All<L>& in, int lane) const {
    const S normal = normalised(in.x.value[lane], channel.mean, channel.inverse, channel.scale, channel.shift);
    return following.value(normal, in.following, lane);
  }
};

/// How the gradient of y passes through an activation: there is none; from x, from which y is recomputed; or from y,
/// and then the reducing kernel writes it.
enum class Through { nothing, x, y };

template <class T, Through through>
struct BatchNormBackward {
  using S = Scalar<T>;
  struct State {
    S gradient, product;  ///< the sums of grad_y and of grad_y times the normalised x
  };
  struct Channel {
    S mean, inverse, scale, shift, inner, outer, gradient, product;  ///< inner * outer: inverse * weight
  };
  T *grad_x, *grad_sum;  ///< grad_sum: where the gradient of the activation's input is written
  S *grad_weight, *grad_bias;
  const T *grad_y, *x, *y;
  const S *weight, *bias, *mean, *inverse_deviation;
  S count;
  Activation activation;

  static constexpr int rows_at_once = 4;
  template <int L>
  struct Inputs {
    Pack<S, L> gradient, x;
  };
  template <int L>
  __device__ Inputs<L> held(std::int64_t offset) const {
    Inputs<L> inputs{load<L>(grad_y + offset), load<L>(x + offset)};
    if constexpr (through == Through::y) {
      const Pack<S, L> out = load<L>(y + offset);
#pragma unroll
      for (int lane = 0; lane < L; ++lane)
        if (!passes_clip(out.value[lane], activation)) inputs.gradient.value[lane] = 0;
    }
    return inputs;
  }
  template <int L>
  __device__ void keep(std::int64_t offset, const Inputs<L>& inputs) const {
    if constexpr (through == Through::y) cuda::store<L>(grad_sum + offset, inputs.gradient);
  }
  template <int L>
  __device__ Inputs<L> read(std::int64_t offset) const {
    const Inputs<L> inputs = held<L>(offset);
    keep<L>(offset, inputs);
    return inputs;
  }
  template <int L>
  using All = Inputs<L>;
  template <int L>
  __device__ All<L> all(std::int64_t offset) const {
    return {load<L>((through == Through::y ? grad_sum : grad_y) + offset), load<L>(x + offset)};
  }
  /// The gradient of the activation's input.
  __device__ S gradient(const Channel& channel, S gradient, S x) const {
    if (through != Through::x) return gradient;
    const S y = normalised(x, channel.mean, channel.inverse, channel.scale, channel.shift);
    return passes_clip(y, activation) ? gradient : S(0);
  }
  template <int Rows, int L>
  static __device__ Inputs<Rows> of_lane(const Inputs<L> (&rows)[Rows], int lane) {
    Inputs<Rows> inputs;
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
      inputs.gradient.value[row] = rows[row].gradient.value[lane];
      inputs.x.value[row] = rows[row].x.value[lane];
    }
    return inputs;
  }
  __device__ State init() const { return {0, 0}; }
  __device__ State operator()(const State& a, const State& b) const {
    return {a.gradient + b.gradient, a.product + b.product};
  }
  __device__ Channel channel(std::int64_t c) const {
    return {mean[c], inverse_deviation[c], weight == nullptr ? S(1) : weight[c], bias == nullptr ? S(0) : bias[c]};
  }
  template <int L>
  __device__ void add(State& state, const Channel& channel, const Inputs<L>& inputs) const {
#pragma unroll
    for (int lane = 0; lane < L; ++lane) {
      const S one = gradient(channel, inputs.gradient.value[lane], inputs.x.value[lane]);
      state.gradient += one;
      state.product += one * ((inputs.x.value[lane] - channel.mean) * channel.inverse);
    }
  }
  template <int Rows, int L>
  __device__ void add_held(State& state, const Channel& channel, const Inputs<L> (&rows)[Rows], int count,
                           int lane) const {
#pragma unroll
    for (int row = 0; row < Rows; ++row)
      if (row < count) add(state, channel, Inputs<1>{{rows[row].gradient.value[lane]}, {rows[row].x.value[lane]}});
  }
  __device__ Channel finish(std::int64_t c, const State& state, bool store) const {
    if (store && grad_weight != nullptr) grad_weight[c] = state.product;
    if (store && grad_bias != nullptr) grad_bias[c] = state.gradient;
    Channel channel = this->channel(c);
    const S inverse = channel.inverse, outer = channel.scale;
    // Two factors on the same side of 1 are multiplied one after the other: their product may leave T's range.
    const bool apart = (inverse > 1) != (::abs(outer) > 1);
    channel.inner = apart ? inverse * outer : inverse;
    channel.outer = apart ? S(1) : outer;
    channel.gradient = state.gradient / count;
    channel.product = state.product / count;
    return channel;
  }
  __host__ __device__ T* output() const { return grad_x; }
  template <int L>
  __device__ S value(const Channel& channel, const All<L>& in, int lane) const {
    const S normal = (in.x.value[lane] - channel.mean) * channel.inverse;
    const S one = gradient(channel, in.gradient.value[lane], in.x.value[lane]);
    return channel.outer * (channel.inner * (one - channel.gradient - normal * channel.product));
  }
};

/// Inference: the statistics are inputs.
template <class T, bool HasAdded>
struct BatchNormInference {
  using S = Scalar<T>;
  struct Channel {
    S mean, deviation, scale, shift;
  };
  T* y;
  const T* x;
  const S *weight, *bias, *mean, *var;
  Following<T, HasAdded> following;
  S epsilon;

  static constexpr int rows_at_once = 8;
  template <int L>
  struct All {
    Pack<S, L> x;
    typename Following<T, HasAdded>::template Inputs<L> following;
  };
  template <int L>
  __device__ All<L> all(std::int64_t offset) const {
    return {load<L>(x + offset), following.template read<L>(offset)};
  }
  __device__ Channel statistics(std::int64_t c) const {
    return {mean[c], ::sqrt(var[c] + epsilon), weight == nullptr ? S(1) : weight[c], bias == nullptr ? S(0) : bias[c]};
  }
  __host__ __device__ T* output() const { return y; }
  template <int L>
  __device__ S value(const Channel& channel, const All<L>& in, int lane) const {
    const S normal = (in.x.value[lane] - channel.mean) / channel.deviation * channel.scale + channel.shift;
    return following.value(normal, in.following, lane);
  }
};

template <int L, class Pass, class Channel>
__device__ void apply(const Pass& pass, const Channel& channel, std::int64_t offset) {
  const auto in = pass.template all<L>(offset);
  auto values = in.x;
#pragma unroll
  for (int lane = 0; lane < L; ++lane) values.value[lane] = pass.value(channel, in, lane);
  store<L>(pass.output() + offset, values);
}

/// The same at two offsets, whose loads are in flight together. The second may be -1.
template <int L, class Pass, class Channel>
__device__ void apply_two(const Pass& pass, const Channel& channel, std::int64_t first, std::int64_t second) {
  const auto in = pass.template all<L>(first), more = pass.template all<L>(second < 0 ? first : second);
  auto values = in.x;
#pragma unroll
  for (int lane = 0; lane < L; ++lane) values.value[lane] = pass.value(channel, in, lane);
  store<L>(pass.output() + first, values);
  if (second < 0) return;
#pragma unroll
  for (int lane = 0; lane < L; ++lane) values.value[lane] = pass.value(channel, more, lane);
  store<L>(pass.output() + second, values);
}

// ---- channels first ----

enum class Phase { both, gather, apply };

struct Channels {
  std::int64_t count, area, elements;  ///< elements of one channel: N * area
  Slices slices;
  Divisor<std::uint32_t> area_packs;
  bool narrow;  ///< the number of elements fits the divisor
};

inline constexpr unsigned channel_threads = 512;

/// One block per slice of a channel with contiguous planes.
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
        pass.add(state, channel, pass.template read<V>(offset_of(c, i)));
    }
    state = reduce_block(state, pass);
    if (phase == Phase::gather) {
      if (threadIdx.x == 0) partial[item] = state;
      continue;
    }
    const auto channel = pass.finish(c, state, threadIdx.x == 0 && slice == 0);
    if (pass.output() == nullptr) continue;
    const std::int64_t step = blockDim.x * V;
    for (std::int64_t i = begin + threadIdx.x * V; i < end; i += 2 * step)
      apply_two<V>(pass, channel, offset_of(c, i), i + step < end ? offset_of(c, i + step) : -1);
  }
}

/// Runs a pass over [N, C, area].
template <class T, class Pass>
void over_planes(Context& context, const kernels::BatchNorm& sizes, bool packable, const Pass& pass) {
  using State = typename Pass::State;
  constexpr int V = pack_of_registers<T>;
  const std::int64_t elements = sizes.N * sizes.area;
  packable = packable && sizes.area % V == 0;
  Channels channels{.count = sizes.C,
                    .area = sizes.area,
                    .elements = elements,
                    .slices = {1, elements},
                    .area_packs = Divisor<std::uint32_t>(packable ? sizes.area / V : sizes.area),
                    .narrow = elements < (std::int64_t{1} << 31)};
  constexpr std::int64_t alone = 16384;  // work per block below which a second kernel does not pay
  if (elements > alone && sizes.C < 256) {
    const std::int64_t count = std::min<std::int64_t>({1024 / sizes.C, ceil_div(elements, alone / 4), channel_threads});
    const std::int64_t slice = ceil_div(ceil_div(elements, std::max<std::int64_t>(count, 1)), 16) * 16;
    channels.slices = {ceil_div(elements, slice), slice};
  }
  const std::int64_t slices = channels.slices.count;
  // Two packs per thread if a channel is small: larger blocks would wait for their barriers.
  const std::int64_t halves = ceil_div(ceil_div(elements, packable ? V : 1), 64) * 32;
  const auto threads =
      static_cast<unsigned>(slices > 1 ? channel_threads : std::clamp<std::int64_t>(halves, 64, channel_threads));
  const Grid grid(static_cast<unsigned>(std::min<std::int64_t>(sizes.C * slices, 1 << 30)), threads);
  const auto kernel = packable ? planes_kernel<V, Pass> : planes_kernel<1, Pass>;
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
