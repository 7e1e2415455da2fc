// The gradients of rows with their own statistics. A row in registers is read once. The gradients of weight and bias
// are summed by further blocks in the same launch or, for rows that the cache does not hold, by the threads that hold
// them.

#include "cuda/row_norm.cuh"
#include "cuda/row_norm_gradients.cuh"

namespace tern::cuda {
namespace row_normalization {
namespace {

// ---- rows in registers ----

/// A row whose weighted gradients leave T's range: in double.
template <int Threads, class T>
__device__ __noinline__ void differentiate_exactly(const Rows& rows, const Backward<T>& pass, std::int64_t row) {
  using Team = Group<Threads>;
  Sums sums{0, 0};
  for (std::int64_t i = Team::rank(); i < rows.length; i += Threads)
    sums = PlusSums{}(sums, pass.weighted(rows, row, i));
  sums = pass.means(rows, Team::reduce(sums, PlusSums{}));
  for (std::int64_t i = Team::rank(); i < rows.length; i += Threads) pass.write(rows, row, i, sums);
}

/// Sums in S of a few terms.
template <class S>
struct Both {
  S gradient, product;
  friend __device__ Both operator+(const Both& a, const Both& b) {
    return {a.gradient + b.gradient, a.product + b.product};
  }
};

template <int Packs, int V, class T>
struct HeldPair {
  Held<Packs, V, Scalar<T>> gradient, x;
};
/// Elements as they lie in memory: of 16 bits, two in a register.
template <int Packs, int V, class T>
struct StoredPair {
  Pack<T, V> gradient[Packs], x[Packs];
};
template <int Threads, int Packs, int V, class T>
__device__ __forceinline__ StoredPair<Packs, V, T> stored_pair(const Backward<T>& pass, std::int64_t start,
                                                               int length) {
  StoredPair<Packs, V, T> pair;
  each_pack<Threads, Packs, V>(length, [&](int k, int i) {
    pair.gradient[k] = *reinterpret_cast<const Pack<T, V>*>(pass.grad_y + start + i);
    pair.x[k] = *reinterpret_cast<const Pack<T, V>*>(pass.x + start + i);
  });
  return pair;
}
template <int Packs, int V, class T>
__device__ __forceinline__ HeldPair<Packs, V, T> held_pair(const StoredPair<Packs, V, T>& stored) {
  HeldPair<Packs, V, T> pair;
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      pair.gradient.pack[k].value[lane] = widened(stored.gradient[k].value[lane]);
      pair.x.pack[k].value[lane] = widened(stored.x[k].value[lane]);
    }
  return pair;
}

/// Calls sum(k, gradients, normalised) with each pack's terms of the gradients of weight and bias. Changes `in`.
template <int Threads, int Packs, int V, class T, class Sum>
__device__ __forceinline__ void differentiate_row(const Rows& rows, const Backward<T>& pass, std::int64_t row,
                                                  HeldPair<Packs, V, T>& in, Sum sum) {
  using Team = Group<Threads>;
  using S = Scalar<T>;
  const int length = static_cast<int>(rows.length);
  const S count = static_cast<S>(length), center = pass.center(row), inverse = pass.inverse_deviation[row];
  const std::int64_t first = rows.first_parameter(row);
  Both<S> sums{0, 0};
  each_pack<Threads, Packs, V>(length, [&](int k, int i) {
    Pack<S, V>&gradient = in.gradient.pack[k], &x = in.x.pack[k];
    const Pack<S, V> scale = rows.parameters<V>(pass.weight, first, i, S(1));
#pragma unroll
    for (int lane = 0; lane < V; ++lane) x.value[lane] = (x.value[lane] - center) * inverse;
    sum(k, gradient, x);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      gradient.value[lane] *= scale.value[lane];
      sums.gradient += gradient.value[lane];
      sums.product += gradient.value[lane] * x.value[lane];
    }
  });
  sums = Team::reduce(sums, Plus{});
  if (!::isfinite(sums.gradient) || !::isfinite(sums.product)) {
    differentiate_exactly<Threads>(rows, pass, row);
    return;
  }
  const S mean_gradient = pass.centred ? sums.gradient / count : S(0), mean_product = sums.product / count;
  each_pack<Threads, Packs, V>(length, [&](int k, int i) {
    Pack<S, V> out;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      out.value[lane] =
          inverse * (in.gradient.pack[k].value[lane] - mean_gradient - in.x.pack[k].value[lane] * mean_product);
    store<V>(pass.grad_x + row * length + i, out);
  });
}

// ---- weight and bias for area 1: columns of [samples, groups * length] ----

/// Threads of a block side by side, which read 128 bytes of a row; the others take turns over rows.
template <int V, class T>
inline constexpr int tile_lanes = std::min<int>(32, 128 / (V * static_cast<int>(sizeof(T))));
template <int V, class T>
inline constexpr int tile_columns = tile_lanes<V, T>* V;

/// A column's sums whose terms leave T's range: in double.
template <class T>
__device__ __noinline__ Sums exact_column(const Rows& rows, const Backward<T>& pass, std::int64_t column,
                                          std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = rows.groups * rows.length, group = column / rows.length;
  Sums sums{0, 0};
  for (std::int64_t n = begin; n < end; ++n)
    sums = PlusSums{}(sums, pass.product(n * rows.groups + group, n * columns + column));
  return sums;
}

/// Tile `item` / slices, slice `item` % slices: a thread adds its rows of V columns in S, all else is
/// added in double.
template <int Threads, int V, class T>
__device__ void sum_tile(const Rows& rows, const Backward<T>& pass, const Slices& slices, std::int64_t item,
                         Sums* partial) {
  using S = Scalar<T>;
  constexpr int lanes = tile_lanes<V, T>, width = tile_columns<V, T>, turns = block_threads<Threads> / lanes;
  __shared__ Both<S> of_turn[turns][width];
  const std::int64_t slice = item % slices.count, first = item / slices.count * width;
  const std::int64_t columns = rows.groups * rows.length, samples = rows.count / rows.groups;
  const int lane = static_cast<int>(threadIdx.x) % lanes, turn = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t begin = slice * slices.slice, end = min(begin + slices.slice, samples);
  Both<S> sums[V] = {};
  if (const std::int64_t at = first + lane * V; at < columns) {
    const std::int64_t group = at / rows.length;
#pragma unroll 4
    for (std::int64_t n = begin + turn; n < end; n += turns) {
      const std::int64_t row = n * rows.groups + group;
      const Pack<S, V> gradient = load<V>(pass.grad_y + n * columns + at), x = load<V>(pass.x + n * columns + at);
      const S center = pass.center(row), inverse = pass.inverse_deviation[row];
#pragma unroll
      for (int i = 0; i < V; ++i)
        sums[i] = sums[i] + Both<S>{gradient.value[i], gradient.value[i] * ((x.value[i] - center) * inverse)};
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i) of_turn[turn][lane * V + i] = sums[i];
  __syncthreads();
  const std::int64_t column = first + threadIdx.x;
  if (threadIdx.x >= width || column >= columns) return;
  Sums all{0, 0};
#pragma unroll 8
  for (int other = 0; other < turns; ++other) {
    const Both<S> one = of_turn[other][threadIdx.x];
    all = PlusSums{}(all, {one.gradient, one.product});
  }
  if (!::isfinite(all.gradient) || !::isfinite(all.product)) all = exact_column(rows, pass, column, begin, end);
  if (partial != nullptr)
    partial[column * slices.count + slice] = all;
  else
    ParameterSums<T>{pass.grad_weight, pass.grad_bias}.store(column, all);
}

/// The first `row_blocks` blocks compute the gradients of rows, the others those of weight and bias.
template <int Threads, int Packs, int V, class T>
__global__ void __launch_bounds__(block_threads<Threads>)
    differentiate_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Backward<T> pass,
                         unsigned row_blocks, Slices slices, Sums* partial) {
  begin_kernel();
  if (blockIdx.x < row_blocks)
    for_rows<Threads>(rows.count, row_blocks, [&](std::int64_t row) {
      const int length = static_cast<int>(rows.length);
      auto in = held_pair(stored_pair<Threads, Packs, V>(pass, row * length, length));
      differentiate_row<Threads>(rows, pass, row, in, [](int, const auto&, const auto&) {});
    });
  else
    sum_tile<Threads, V>(rows, pass, slices, blockIdx.x - row_blocks, partial);
}

// ---- many rows that share weight and bias ----

/// A group of more threads than a warp is a block.
template <int Threads>
inline constexpr int together_threads = Threads > 32 ? Threads : 256;

/// The sums of blocks as those of their columns.
template <class S>
struct BlockSums {
  const Both<S>* in;
  template <int V>
  __device__ Pack<Sums, V> get(std::int64_t offset) const {
    Pack<Sums, V> sums;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) sums.value[lane] = {in[offset + lane].gradient, in[offset + lane].product};
    return sums;
  }
};

/// Groups of threads walk over rows and sum what they hold of each column, in `partial` [blocks, length]. The next row
/// is loaded before this one is processed.
template <int Threads, int Packs, int V, class T>
__global__ void __launch_bounds__(together_threads<Threads>, 512 / together_threads<Threads>)
    differentiate_together_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Backward<T> pass,
                                  Both<Scalar<T>>* partial) {
  using Pair = Both<Scalar<T>>;
  constexpr int padded = Threads * Packs * V, groups = together_threads<Threads> / Threads;
  begin_kernel();
  const int length = static_cast<int>(rows.length), group = static_cast<int>(threadIdx.x) / Threads;
  const std::int64_t step = std::int64_t{gridDim.x} * groups;
  std::int64_t row = std::int64_t{blockIdx.x} * groups + group;
  Pair sums[Packs][V] = {};
  StoredPair<Packs, V, T> next;
  if (row < rows.count) next = stored_pair<Threads, Packs, V>(pass, row * length, length);
  for (; row < rows.count; row += step) {
    auto in = held_pair(next);
    if (row + step < rows.count) next = stored_pair<Threads, Packs, V>(pass, (row + step) * length, length);
    differentiate_row<Threads>(rows, pass, row, in, [&](int k, const auto& gradient, const auto& normal) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) {
        const Scalar<T> one = gradient.value[lane];
        sums[k][lane] = sums[k][lane] + Pair{one, one * normal.value[lane]};
      }
    });
  }
  Pair* const of_block = partial + blockIdx.x * rows.length;
  if constexpr (groups == 1) {
    each_pack<Threads, Packs, V>(length, [&](int k, int i) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) of_block[i + lane] = sums[k][lane];
    });
  } else {
    __shared__ alignas(16) unsigned char storage[groups * padded * sizeof(Pair)];
    Pair* const shared = reinterpret_cast<Pair*>(storage);
    each_pack<Threads, Packs, V>(length, [&](int k, int i) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) shared[group * padded + i + lane] = sums[k][lane];
    });
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < length; column += static_cast<int>(blockDim.x)) {
      Pair sum = shared[column];
#pragma unroll
      for (int other = 1; other < groups; ++other) sum = sum + shared[other * padded + column];
      of_block[column] = sum;
    }
  }
}

template <int Threads, int Packs, int V, class T>
void differentiate_together(Context& context, const Rows& rows, const Backward<T>& pass) {
  constexpr std::int64_t multiprocessors = 132;  // of a large card; the bits are the same on every one
  constexpr std::int64_t threads = together_threads<Threads>, groups = threads / Threads;
  const std::int64_t blocks =
      std::min<std::int64_t>(ceil_div(rows.count, 4 * groups), multiprocessors * (512 / threads));
  Scratch partial(context, static_cast<std::size_t>(blocks * rows.length) * sizeof(Both<Scalar<T>>));
  Both<Scalar<T>>* const sums = partial.as<Both<Scalar<T>>>();
  launch(context, Grid(static_cast<unsigned>(blocks), static_cast<unsigned>(threads)),
         differentiate_together_kernel<Threads, Packs, V, T>, rows, pass, sums);
  // Narrow tiles: the columns are few.
  constexpr unsigned x = 8;
  using Columns = ParameterSums<T>;
  launch(context, Grid(static_cast<unsigned>(ceil_div(rows.length, x)), dim3(x, column_threads / x)),
         reduce_columns_kernel<Columns, BlockSums<Scalar<T>>>, Axis{1, blocks, rows.length}, Slices{1, blocks},
         Columns{pass.grad_weight, pass.grad_bias}, BlockSums<Scalar<T>>{sums}, nullptr);
}

/// All gradients in one pass, if that pays; false if not.
template <int V, class T>
bool differentiate_together(Context& context, const Rows& rows, const Backward<T>& pass) {
  constexpr std::int64_t least_rows = 1024;
  const bool parameters = pass.grad_weight != nullptr || pass.grad_bias != nullptr;
  if (rows.count < least_rows || rows.groups > 1 || pass.grad_x == nullptr || !parameters) return false;
  const std::int64_t packs = rows.length / V;
  const auto fits = [&]<int Threads, int Packs>(HeldRow<Threads, Packs, V>) {
    if (packs > Threads * Packs) return false;
    differentiate_together<Threads, Packs, V>(context, rows, pass);
    return true;
  };
  if (fits(HeldRow<8, 2, V>{}) || fits(HeldRow<16, 2, V>{}) || fits(HeldRow<32, 2, V>{}) || fits(HeldRow<32, 4, V>{}))
    return true;
  if constexpr (V == 1) {
    return fits(HeldRow<128, 4, V>{}) || fits(HeldRow<256, 4, V>{}) || fits(HeldRow<256, 8, V>{}) ||
           fits(HeldRow<512, 8, V>{});
  } else {
    if (fits(HeldRow<128, 2, V>{}) || fits(HeldRow<256, 2, V>{})) return true;
    // Two blocks of a multiprocessor leave more partial sums than one, which pays with many rows.
    return rows.count >= many_rows ? fits(HeldRow<256, 3, V>{}) || fits(HeldRow<256, 4, V>{})
                                   : fits(HeldRow<512, 2, V>{});
  }
}

// ---- longer rows ----

template <class T>
struct Longer {
  Backward<T> pass;
  const Sums* sums;
  template <int V>
  __device__ void run(const Rows& rows, std::int64_t row, std::int64_t i) const {
    pass.template write_pack<V>(rows, row, i, pass.means(rows, sums[row]));
  }
};

/// The slices of each tile of columns; none if the gradients are not requested.
template <class T>
Slices tile_slices(const Rows& rows, const Backward<T>& pass, std::int64_t tiles, std::int64_t turns) {
  if (pass.grad_weight == nullptr && pass.grad_bias == nullptr) return {0, 0};
  const std::int64_t samples = rows.count / rows.groups;
  // A second kernel costs about as much as 12 rows of a thread, which has 4 in flight.
  const std::int64_t most = std::max<std::int64_t>(1024 / tiles, 128);
  const std::int64_t slice = samples <= 12 * turns ? samples : std::max(4 * turns, ceil_div(samples, most));
  return {ceil_div(samples, slice), slice};
}

/// The gradients of weight and bias, and those of rows unless `row_blocks` is 0.
template <int Threads, int Packs, int V, class T>
void differentiate_apart(Context& context, const Rows& rows, const Backward<T>& pass, unsigned row_blocks) {
  const std::int64_t columns = rows.groups * rows.channels, tiles = ceil_div(columns, tile_columns<V, T>);
  const Slices slices = tile_slices(rows, pass, tiles, block_threads<Threads> / tile_lanes<V, T>);
  Scratch scratch(context, slices.count > 1 ? static_cast<std::size_t>(columns * slices.count) * sizeof(Sums) : 0);
  Sums* const partial = scratch.as<Sums>();
  launch(context, Grid(row_blocks + static_cast<unsigned>(tiles * slices.count), block_threads<Threads>),
         differentiate_kernel<Threads, Packs, V, T>, rows, pass, row_blocks, slices, partial);
  if (partial != nullptr)
    combine(context, columns, slices.count, ParameterSums<T>{pass.grad_weight, pass.grad_bias}, partial);
}

/// Whether both arrays stay in the cache while they are read twice: then rows need not be few for each block.
template <class T>
bool reads_twice(const Rows& rows) {
  constexpr std::int64_t bytes = 24 << 20, most_rows = 4096;
  return rows.count <= most_rows && 2 * rows.count * rows.length * static_cast<std::int64_t>(sizeof(T)) <= bytes;
}

template <int V, class T>
void differentiate(Context& context, const Rows& rows, const Backward<T>& pass) {
  if (rows.area > 1) return differentiate_planes<V>(context, rows, pass);
  if (!reads_twice<T>(rows) && differentiate_together<V>(context, rows, pass)) return;
  const bool held = pass.grad_x != nullptr && with_held<V, true>(rows.count, rows.length / V, [&](auto shape) {
                      using Shape = decltype(shape);
                      differentiate_apart<Shape::threads, Shape::packs, V>(
                          context, rows, pass, group_grid<Shape::threads>(rows.count).blocks.x);
                    });
  if (held) return;
  differentiate_apart<512, 4, V>(context, rows, pass, 0);
  if (pass.grad_x == nullptr) return;
  Scratch of_rows(context, static_cast<std::size_t>(rows.count) * sizeof(Sums));
  reduce<T>(context, Axis{rows.count, rows.length, 1}, StoredSums{of_rows.as<Sums>()}, Terms<T>{rows, pass});
  over_elements<V>(context, rows, Longer<T>{pass, of_rows.as<Sums>()});
}

}  // namespace
}  // namespace row_normalization

template <class T>
void row_norm_backward(Context& context, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, const T* grad_y,
                       const T* x, const Scalar<T>* weight, const Scalar<T>* mean, const Scalar<T>* inverse_deviation,
                       const kernels::RowNorm& sizes) {
  const row_normalization::Rows rows(sizes);
  const row_normalization::Backward<T> pass{grad_x, grad_weight, grad_bias,         grad_y,       x,
                                            weight, mean,        inverse_deviation, sizes.centred};
  constexpr int V = pack_of_registers<T>;
  if (row_normalization::packable<V>(sizes, grad_x, grad_y, x, weight))
    row_normalization::differentiate<V>(context, rows, pass);
  else
    row_normalization::differentiate<1>(context, rows, pass);
}

#define TERN_INSTANTIATE(T)                                                                                   \
  template void row_norm_backward(Context&, T*, Scalar<T>*, Scalar<T>*, const T*, const T*, const Scalar<T>*, \
                                  const Scalar<T>*, const Scalar<T>*, const kernels::RowNorm&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
