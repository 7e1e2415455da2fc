// Rows with their own statistics: layer, RMS, group and instance normalisation. A row that fits the registers of a
// warp or a block is read once, by one kernel. Longer rows are reduced in double and written by a second kernel.

#include "cuda/row_norm.cuh"
#include "cuda/row_norm_rows.cuh"

namespace tern::cuda {
namespace row_normalization {
namespace {

template <class T>
struct Forward {
  using S = Scalar<T>;
  T* y;
  S *mean, *inverse_deviation;
  const T* x;
  const S *weight, *bias;
  double epsilon;
  bool centred;

  /// In this order, inverse * weight may be out of T's range.
  template <int V>
  __device__ void write(T* to, const Pack<S, V>& in, S center, S inverse, const Pack<S, V>& scale,
                        const Pack<S, V>& shift) const {
    Pack<S, V> out;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      out.value[lane] = (in.value[lane] - center) * inverse * scale.value[lane] + shift.value[lane];
    store<V>(to, out);
  }
  /// Elements of a row whose statistics are stored.
  template <int V>
  __device__ void run(const Rows& rows, std::int64_t row, std::int64_t i) const {
    const std::int64_t first = rows.first_parameter(row), at = row * rows.length + i;
    write<V>(y + at, load<V>(x + at), mean == nullptr ? S(0) : mean[row], inverse_deviation[row],
             rows.parameters<V>(weight, first, i, S(1)), rows.parameters<V>(bias, first, i, S(0)));
  }
};

// ---- rows in registers ----

template <class S>
struct Statistics {
  S center, inverse;
};

/// The statistics of a row whose squares leave T's range: in double.
template <int Threads, class T>
__device__ __noinline__ Statistics<Scalar<T>> exact_statistics(const T* in, std::int64_t length, bool centred,
                                                               double epsilon) {
  using Team = Group<Threads>;
  double sum = 0, squares = 0;
  for (std::int64_t i = Team::rank(); centred && i < length; i += Threads) sum += widened(in[i]);
  const double exact = Team::reduce(sum, Plus{}) / static_cast<double>(length);
  for (std::int64_t i = Team::rank(); i < length; i += Threads)
    squares += (widened(in[i]) - exact) * (widened(in[i]) - exact);
  squares = Team::reduce(squares, Plus{}) / static_cast<double>(length);
  return {static_cast<Scalar<T>>(exact), static_cast<Scalar<T>>(1 / ::sqrt(squares + epsilon))};
}

/// The statistics of a row that `held` has, which are stored.
template <int Threads, int Packs, int V, class T>
__device__ __forceinline__ Statistics<Scalar<T>> statistics_of(const Held<Packs, V, Scalar<T>>& held, int length,
                                                               const Forward<T>& pass, std::int64_t row) {
  using Team = Group<Threads>;
  using S = Scalar<T>;
  const S count = static_cast<S>(length);
  S center = 0, squares = 0;
  if (pass.centred) {
    each_pack<Threads, Packs, V>(length, [&](int k, int) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) center += held.pack[k].value[lane];
    });
    center = Team::reduce(center, Plus{}) / count;
  }
  each_pack<Threads, Packs, V>(length, [&](int k, int) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const S deviation = held.pack[k].value[lane] - center;
      squares += deviation * deviation;
    }
  });
  const S variance = Team::reduce(squares, Plus{}) / count;
  Statistics<S> found{center, 1 / ::sqrt(variance + static_cast<S>(pass.epsilon))};
  if (!::isfinite(variance))
    found = exact_statistics<Threads>(pass.x + row * length, length, pass.centred, pass.epsilon);
  if (Team::rank() == 0) {
    if (pass.mean != nullptr) pass.mean[row] = found.center;
    pass.inverse_deviation[row] = found.inverse;
  }
  return found;
}

template <int Threads, int Packs, int V, class T>
__device__ void normalize_row(const Rows& rows, const Forward<T>& pass, std::int64_t row) {
  using S = Scalar<T>;
  const int length = static_cast<int>(rows.length);
  const std::int64_t first = rows.first_parameter(row);
  // Loaded early, weight and bias arrive while the statistics are computed; many packs need the registers.
  constexpr bool early = Packs * V <= 8;
  const auto held = held_row<Threads, Packs, V>(pass.x + row * length, length);
  Held<early ? Packs : 1, V, S> scale, shift;
  const auto ask = [&](int k, int i) {
    scale.pack[early ? k : 0] = rows.parameters<V>(pass.weight, first, i, S(1));
    shift.pack[early ? k : 0] = rows.parameters<V>(pass.bias, first, i, S(0));
  };
  if (early) each_pack<Threads, Packs, V>(length, ask);
  const auto [center, inverse] = statistics_of<Threads>(held, length, pass, row);
  each_pack<Threads, Packs, V>(length, [&, center = center, inverse = inverse](int k, int i) {
    if (!early) ask(k, i);
    const int at = early ? k : 0;
    pass.template write<V>(pass.y + row * length + i, held.pack[k], center, inverse, scale.pack[at], shift.pack[at]);
  });
}

template <int Threads, int Packs, int V, class T>
__global__ void __launch_bounds__(block_threads<Threads>)
    normalize_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Forward<T> pass) {
  begin_kernel();
  for_rows<Threads>(rows.count, gridDim.x,
                    [&](std::int64_t row) { normalize_row<Threads, Packs, V>(rows, pass, row); });
}

// ---- many rows with one weight ----

/// Blocks of a multiprocessor, by the elements that a lane has of a row.
template <int elements>
inline constexpr int many_resident = elements <= 8    ? 6
                                     : elements <= 16 ? 4
                                                      : 3;

/// A warp keeps its part of weight and bias in registers for all its rows, which would read more of them than of x, and
/// loads the next row while it finishes one.
template <int Packs, int V, class T>
__global__ void __launch_bounds__(128, Packs* V <= 8     ? 8
                                       : Packs * V <= 24 ? 4
                                                         : 3)
    normalize_many_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Forward<T> pass) {
  begin_kernel();
  using S = Scalar<T>;
  const int length = static_cast<int>(rows.length);
  Held<Packs, V, S> scale, shift;
  Held<Packs, V, T> next;  // as in memory
  each_pack<32, Packs, V>(length, [&](int k, int i) {
    scale.pack[k] = rows.parameters<V>(pass.weight, 0, i, S(1));
    shift.pack[k] = rows.parameters<V>(pass.bias, 0, i, S(0));
  });
  const auto fetch = [&](std::int64_t row) {
    if (row >= rows.count) return;
    each_pack<32, Packs, V>(
        length, [&](int k, int i) { next.pack[k] = *reinterpret_cast<const Pack<T, V>*>(pass.x + row * length + i); });
  };
  const std::int64_t step = std::int64_t{gridDim.x} * 4;
  std::int64_t row = std::int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  for (fetch(row); row < rows.count; row += step) {
    Held<Packs, V, S> held;
    each_pack<32, Packs, V>(length, [&](int k, int) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) held.pack[k].value[lane] = widened(next.pack[k].value[lane]);
    });
    fetch(row + step);
    const auto [center, inverse] = statistics_of<32>(held, length, pass, row);
    each_pack<32, Packs, V>(length, [&, center = center, inverse = inverse](int k, int i) {
      pass.template write<V>(pass.y + row * length + i, held.pack[k], center, inverse, scale.pack[k], shift.pack[k]);
    });
  }
}

/// Whether these are such rows; if so, they are done.
template <class T>
bool normalize_many(Context& context, const RowNorm& sizes, const Rows& rows, const Forward<T>& pass) {
  constexpr int V = pack_size<T>, most = 32 / V;  // packs of a lane
  const std::int64_t packs = ceil_div(rows.length, V * 32);
  if (sizeof(Scalar<T>) != 4 || rows.count < many_rows || sizes.groups != 1 || sizes.area != 1 || packs > most ||
      !packable<V>(sizes, pass.x, pass.y, pass.weight, pass.bias))
    return false;
  const auto run = [&]<int Packs>(std::integral_constant<int, Packs>) {
    const std::int64_t blocks =
        std::min<std::int64_t>(ceil_div(rows.count, 4), card().multiprocessors * many_resident<Packs * V>);
    launch(context, Grid(static_cast<unsigned>(blocks), 128), normalize_many_kernel<Packs, V, T>, rows, pass);
  };
  constexpr int quarter = most / 4;
  if constexpr (sizeof(Scalar<T>) == 4) {
    if (packs <= quarter)
      run(std::integral_constant<int, quarter>{});
    else if (packs <= 2 * quarter)
      run(std::integral_constant<int, 2 * quarter>{});
    else if (packs <= 3 * quarter)
      run(std::integral_constant<int, 3 * quarter>{});
    else
      run(std::integral_constant<int, most>{});
  }
  return true;
}

// ---- longer rows ----

template <class T>
struct Widened {
  const T* in;
  template <int V>
  __device__ Pack<double, V> get(std::int64_t offset) const {
    const Pack<Scalar<T>, V> narrow = load<V>(in + offset);
    Pack<double, V> wide;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) wide.value[lane] = narrow.value[lane];
    return wide;
  }
  template <int V>
  bool packable() const {
    return aligned<V>(in);
  }
};

/// Sums of deviations from a value near the mean, and of their squares.
struct Deviations {
  double count, origin, sum, squares;
  __device__ double mean() const { return origin + sum / count; }
  /// Of squared deviations from the mean.
  __device__ double central() const {
    const double rest = squares - sum * (sum / count);
    return rest < 0 ? 0 : rest;
  }
};

/// A thread's origin is its first value.
template <class T>
struct RowMoments {
  using State = Deviations;
  Scalar<T>*mean, *inverse_deviation;
  double epsilon;
  bool centred;
  __device__ State init() const { return {0, 0, 0, 0}; }
  __device__ void add(State& state, double value, std::int64_t) const { add_pack<1>(state, {value}); }
  template <int V>
  __device__ void add_pack(State& state, const Pack<double, V>& pack) const {
    if (state.count == 0) state.origin = pack.value[0];
    double sum = 0, squares = 0;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const double deviation = pack.value[lane] - state.origin;
      sum += deviation;
      squares += deviation * deviation;
    }
    state.count += V, state.sum += sum, state.squares += squares;
  }
  /// From a's origin. Without divisions, which take longer than all else here.
  __device__ State operator()(const State& a, const State& b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double apart = b.origin - a.origin, moved = b.count * apart;
    return {a.count + b.count, a.origin, a.sum + (b.sum + moved),
            a.squares + (b.squares + apart * (2 * b.sum + moved))};
  }
  __device__ void store(std::int64_t row, const State& state) const {
    const double center = state.mean();
    if (mean != nullptr) mean[row] = static_cast<Scalar<T>>(center);
    const double squares = state.central() / state.count + (centred ? 0 : center * center);
    inverse_deviation[row] = static_cast<Scalar<T>>(1 / ::sqrt(squares + epsilon));
  }
};

template <int V, class T>
void normalize(Context& context, const Rows& rows, const Forward<T>& pass) {
  const bool held = with_held<V, false>(rows.count, rows.length / V, [&](auto shape) {
    using Shape = decltype(shape);
    launch(context, group_grid<Shape::threads>(rows.count), normalize_kernel<Shape::threads, Shape::packs, V, T>, rows,
           pass);
  });
  if (held) return;
  reduce<T>(context, Axis{rows.count, rows.length, 1},
            RowMoments<T>{pass.mean, pass.inverse_deviation, pass.epsilon, pass.centred}, Widened<T>{pass.x});
  over_elements<V>(context, rows, pass);
}

}  // namespace
}  // namespace row_normalization

template <class T>
void row_norm(Context& context, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, const T* x,
              const Scalar<T>* weight, const Scalar<T>* bias, const kernels::RowNorm& sizes) {
  const row_normalization::Rows rows(sizes);
  const row_normalization::Forward<T> pass{y, mean, inverse_deviation, x, weight, bias, sizes.epsilon, sizes.centred};
  constexpr int V = pack_of_registers<T>;
  if (row_normalization::normalize_many(context, sizes, rows, pass)) return;
  if (row_normalization::packable<V>(sizes, x, y, weight, bias))
    row_normalization::normalize<V>(context, rows, pass);
  else
    row_normalization::normalize<1>(context, rows, pass);
}

#define TERN_INSTANTIATE(T)                                                                                  \
  template void row_norm(Context&, T*, Scalar<T>*, Scalar<T>*, const T*, const Scalar<T>*, const Scalar<T>*, \
                         const kernels::RowNorm&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
