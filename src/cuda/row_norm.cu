// Rows with their own statistics: layer, RMS, group and instance normalisation. A row that fits the registers of a
// warp, a block or a cluster is read once, by one kernel. Longer rows are reduced in double and written by a second
// kernel.

#include "cuda/row_norm.cuh"
#include "cuda/row_norm_clusters.cuh"

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

template <int Threads, int Packs, int V, class T>
__device__ void normalize_row(const Rows& rows, const Forward<T>& pass, std::int64_t row) {
  using Team = Group<Threads>;
  using S = Scalar<T>;
  const int length = static_cast<int>(rows.length);
  const S count = static_cast<S>(length);
  const T* const in = pass.x + row * length;
  const std::int64_t first = rows.first_parameter(row);
  // Loaded early, weight and bias arrive while the statistics are computed; many packs need the registers.
  constexpr bool early = Packs * V <= 8;
  const auto held = held_row<Threads, Packs, V>(in, length);
  Held<early ? Packs : 1, V, S> scale, shift;
  const auto ask = [&](int k, int i) {
    scale.pack[early ? k : 0] = rows.parameters<V>(pass.weight, first, i, S(1));
    shift.pack[early ? k : 0] = rows.parameters<V>(pass.bias, first, i, S(0));
  };
  if (early) each_pack<Threads, Packs, V>(length, ask);
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
  S inverse = 1 / ::sqrt(variance + static_cast<S>(pass.epsilon));
  if (!::isfinite(variance)) {
    const Statistics<S> exact = exact_statistics<Threads>(in, length, pass.centred, pass.epsilon);
    center = exact.center, inverse = exact.inverse;
  }
  if (Team::rank() == 0) {
    if (pass.mean != nullptr) pass.mean[row] = center;
    pass.inverse_deviation[row] = inverse;
  }
  each_pack<Threads, Packs, V>(length, [&](int k, int i) {
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

// ---- rows in the registers of a cluster ----

template <int Packs, int V, class T>
__global__ void __launch_bounds__(part_threads)
    normalize_parts_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Forward<T> pass,
                           std::int64_t part, unsigned parts) {
  constexpr int Threads = part_threads;
  using S = Scalar<T>;
  begin_kernel();
  ClusterReduction<S> reduce;
  const S length = static_cast<S>(rows.length);
  each_part(rows, part, parts, [&](const RowPart& at) {
    const T* const in = pass.x + at.row * rows.length;
    const auto held = held_row<Threads, Packs, V>(in + at.first, at.count);
    S center = 0, squares = 0;
    if (pass.centred) {
      each_pack<Threads, Packs, V>(at.count, [&](int k, int) {
#pragma unroll
        for (const S& value : held.pack[k].value) center += value;
      });
      center = reduce(center, Plus{}) / length;
    }
    each_pack<Threads, Packs, V>(at.count, [&](int k, int) {
#pragma unroll
      for (const S& value : held.pack[k].value) squares += (value - center) * (value - center);
    });
    const S variance = reduce(squares, Plus{}) / length;
    Statistics<S> of_row{center, 1 / ::sqrt(variance + static_cast<S>(pass.epsilon))};
    if (!::isfinite(variance)) of_row = exact_statistics<Threads>(in, rows.length, pass.centred, pass.epsilon);
    if (threadIdx.x == 0 && at.first == 0) {
      if (pass.mean != nullptr) pass.mean[at.row] = of_row.center;
      pass.inverse_deviation[at.row] = of_row.inverse;
    }
    const std::int64_t parameters = rows.first_parameter(at.row);
    each_pack<Threads, Packs, V>(at.count, [&](int k, int i) {
      pass.template write<V>(pass.y + at.row * rows.length + at.first + i, held.pack[k], of_row.center, of_row.inverse,
                             rows.parameters<V>(pass.weight, parameters, at.first + i, S(1)),
                             rows.parameters<V>(pass.bias, parameters, at.first + i, S(0)));
    });
  });
  reduce.finish();
}

/// Whether the registers of a block or a cluster hold a row; if so, it is done.
template <int V, class T>
bool normalize_parts(Context& context, const Rows& rows, const Forward<T>& pass) {
  constexpr int elements = part_elements<Scalar<T>>;
  const PartCut cut(rows.count, rows.length, V, elements);
  if (cut.parts == 0) return false;
  launch(context, part_grid(rows, cut), normalize_parts_kernel<elements / V, V, T>, rows, pass, cut.part, cut.parts);
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
  const bool few = rows.count < 132 && rows.length > 4096;  // of a block each, they leave the card idle
  if (few && normalize_parts<V>(context, rows, pass)) return;
  const bool held = with_held<V, false>(rows.count, rows.length / V, [&](auto shape) {
    using Shape = decltype(shape);
    launch(context, group_grid<Shape::threads>(rows.count), normalize_kernel<Shape::threads, Shape::packs, V, T>, rows,
           pass);
  });
  if (held || normalize_parts<V>(context, rows, pass)) return;
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
