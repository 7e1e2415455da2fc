// The gradients of rows with their own statistics. A row in registers is read once. The gradients of weight and bias
// are summed by further blocks in the same launch or, for many rows, by the threads that hold the rows.

#include "cuda/row_norm.cuh"
#include "cuda/row_norm_rows.cuh"

namespace tern::cuda {
namespace row_normalization {
namespace {

/// The sums of gradients, and of gradients times the normalised x.
struct Sums {
  double gradient, product;
};

struct PlusSums {
  __device__ Sums operator()(const Sums& a, const Sums& b) const {
    return {a.gradient + b.gradient, a.product + b.product};
  }
};

template <class T>
struct Backward {
  using S = Scalar<T>;
  T* grad_x;
  S *grad_weight, *grad_bias;
  const T *grad_y, *x;
  const S *weight, *mean, *inverse_deviation;
  bool centred;
  const Sums* sums;  ///< of rows that do not fit registers

  __device__ S center(std::int64_t row) const { return mean == nullptr ? S(0) : mean[row]; }
  /// An element's terms of the gradients of weight and bias.
  __device__ Sums product(std::int64_t row, std::int64_t at) const {
    const double gradient = widened(grad_y[at]);
    return {gradient, gradient * ((widened(x[at]) - center(row)) * inverse_deviation[row])};
  }
  /// The same, weighted, for its row's sums.
  __device__ Sums weighted(const Rows& rows, std::int64_t row, std::int64_t i) const {
    const Sums plain = product(row, row * rows.length + i);
    const double scale = rows.parameters<1>(weight, rows.first_parameter(row), i, S(1)).value[0];
    return {plain.gradient * scale, plain.product * scale};
  }
  /// The gradient of an element, in double.
  __device__ void write(const Rows& rows, std::int64_t row, std::int64_t i, const Sums& of_row) const {
    const std::int64_t at = row * rows.length + i;
    const double inverse = inverse_deviation[row], count = static_cast<double>(rows.length);
    const double normalized = (double{widened(x[at])} - center(row)) * inverse;
    const double mean_gradient = centred ? of_row.gradient / count : 0;
    const double gradient = weighted(rows, row, i).gradient - mean_gradient - normalized * (of_row.product / count);
    put(grad_x[at], static_cast<S>(inverse * gradient));
  }
  template <int V>
  __device__ void run(const Rows& rows, std::int64_t row, std::int64_t i) const {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) write(rows, row, i + lane, sums[row]);
  }
};

// ---- rows in registers ----

/// A row whose weighted gradients leave T's range: in double.
template <int Threads, class T>
__device__ __noinline__ void differentiate_exactly(const Rows& rows, const Backward<T>& pass, std::int64_t row) {
  using Team = Group<Threads>;
  Sums sums{0, 0};
  for (std::int64_t i = Team::rank(); i < rows.length; i += Threads)
    sums = PlusSums{}(sums, pass.weighted(rows, row, i));
  sums = Team::reduce(sums, PlusSums{});
  for (std::int64_t i = Team::rank(); i < rows.length; i += Threads) pass.write(rows, row, i, sums);
}

template <int Packs, int V, class T>
struct HeldPair {
  Held<Packs, V, Scalar<T>> gradient, x;
};
template <int Threads, int Packs, int V, class T>
__device__ __forceinline__ HeldPair<Packs, V, T> held_pair(const Backward<T>& pass, std::int64_t start, int length) {
  return {held_row<Threads, Packs, V>(pass.grad_y + start, length),
          held_row<Threads, Packs, V>(pass.x + start, length)};
}

/// Calls sum(k, gradients, normalised) with each pack's terms of the gradients of weight and bias. Changes `in`.
template <int Threads, int Packs, int V, class T, class Sum>
__device__ __forceinline__ void differentiate_row(const Rows& rows, const Backward<T>& pass, std::int64_t row,
                                                  HeldPair<Packs, V, T>& in, Sum sum) {
  using Team = Group<Threads>;
  using S = Scalar<T>;
  struct Both {
    S gradient, product;
  };
  const int length = static_cast<int>(rows.length);
  const S count = static_cast<S>(length), center = pass.center(row), inverse = pass.inverse_deviation[row];
  const std::int64_t first = rows.first_parameter(row);
  Both sums{0, 0};
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
  sums = Team::reduce(sums, [](const Both& a, const Both& b) {
    return Both{a.gradient + b.gradient, a.product + b.product};
  });
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

template <class T>
struct ParameterSums {
  using State = Sums;
  Scalar<T>*grad_weight, *grad_bias;
  __device__ State init() const { return {0, 0}; }
  __device__ void add(State& state, const Sums& value, std::int64_t) const { state = PlusSums{}(state, value); }
  __device__ State operator()(const State& a, const State& b) const { return PlusSums{}(a, b); }
  __device__ void store(std::int64_t parameter, const State& state) const {
    if (grad_weight != nullptr) grad_weight[parameter] = static_cast<Scalar<T>>(state.product);
    if (grad_bias != nullptr) grad_bias[parameter] = static_cast<Scalar<T>>(state.gradient);
  }
};

inline constexpr int tile_columns = 32;

/// Tile `item` / slices, slice `item` % slices: a warp reads a row of the tile, the block's warps take turns.
template <class T>
__device__ void sum_tile(const Rows& rows, const Backward<T>& pass, const Slices& slices, std::int64_t item,
                         Sums* partial) {
  __shared__ Sums of_warp[16][tile_columns];
  const std::int64_t slice = item % slices.count, columns = rows.groups * rows.length;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const std::int64_t column = item / slices.count * tile_columns + lane, samples = rows.count / rows.groups;
  const std::int64_t group = column / rows.length, end = min((slice + 1) * slices.slice, samples);
  Sums sums{0, 0};
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t n = slice * slices.slice + warp; n < end; n += warps)
      sums = PlusSums{}(sums, pass.product(n * rows.groups + group, n * columns + column));
  }
  of_warp[warp][lane] = sums;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  for (unsigned other = 1; other < warps; ++other) sums = PlusSums{}(sums, of_warp[other][lane]);
  if (partial != nullptr)
    partial[column * slices.count + slice] = sums;
  else
    ParameterSums<T>{pass.grad_weight, pass.grad_bias}.store(column, sums);
}

/// The first `row_blocks` blocks compute the gradients of rows, the others those of weight and bias.
template <int Threads, int Packs, int V, class T>
__global__ void __launch_bounds__(block_threads<Threads>)
    differentiate_kernel(Rows rows, Backward<T> pass, unsigned row_blocks, Slices slices, Sums* partial) {
  begin_kernel();
  if (blockIdx.x < row_blocks)
    for_rows<Threads>(rows.count, row_blocks, [&](std::int64_t row) {
      const int length = static_cast<int>(rows.length);
      auto in = held_pair<Threads, Packs, V>(pass, row * length, length);
      differentiate_row<Threads>(rows, pass, row, in, [](int, const auto&, const auto&) {});
    });
  else
    sum_tile(rows, pass, slices, blockIdx.x - row_blocks, partial);
}

// ---- many rows that share weight and bias ----

constexpr int summing_threads = 512;  // per multiprocessor: each one's registers hold the sums of its columns

/// partial: [blocks, length]. The next row is loaded before this one is processed.
template <int Threads, int V, class T>
__global__ void __launch_bounds__(Threads, summing_threads / Threads)
    differentiate_all_kernel(Rows rows, Backward<T> pass, Sums* partial) {
  begin_kernel();
  constexpr int packs = 2;
  const int length = static_cast<int>(rows.length);
  Sums sums[packs][V] = {};
  auto next = held_pair<Threads, packs, V>(pass, std::int64_t{blockIdx.x} * length, length);
  for (std::int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    auto in = next;
    if (row + gridDim.x < rows.count) next = held_pair<Threads, packs, V>(pass, (row + gridDim.x) * length, length);
    differentiate_row<Threads>(rows, pass, row, in, [&](int k, const auto& gradient, const auto& normal) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) {
        const double one = gradient.value[lane];
        sums[k][lane] = PlusSums{}(sums[k][lane], {one, one * normal.value[lane]});
      }
    });
  }
  each_pack<Threads, packs, V>(length, [&](int k, int i) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) partial[blockIdx.x * rows.length + i + lane] = sums[k][lane];
  });
}

template <int Threads, int V, class T>
void differentiate_all(Context& context, const Rows& rows, const Backward<T>& pass) {
  constexpr std::int64_t multiprocessors = 132;  // of a large card; the bits are the same on every one
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(rows.count, multiprocessors * (summing_threads / Threads)));
  Scratch partial(context, static_cast<std::size_t>(blocks * rows.length) * sizeof(Sums));
  launch(context, Grid(blocks, Threads), differentiate_all_kernel<Threads, V, T>, rows, pass, partial.as<Sums>());
  reduce<Sums>(context, Axis{1, blocks, rows.length}, ParameterSums<T>{pass.grad_weight, pass.grad_bias},
               Elements<Sums>{partial.as<Sums>()});
}

/// All gradients in one pass, if that pays; false if not.
template <int V, class T>
bool differentiate_all(Context& context, const Rows& rows, const Backward<T>& pass) {
  const bool parameters = pass.grad_weight != nullptr || pass.grad_bias != nullptr;
  if (rows.count < many_rows || rows.groups > 1 || rows.area > 1 || pass.grad_x == nullptr || !parameters) return false;
  const std::int64_t packs = rows.length / V;
  if (packs <= 64 || packs > 1024) return false;
  if (packs <= 256)
    differentiate_all<128, V>(context, rows, pass);
  else if (packs <= 512)
    differentiate_all<256, V>(context, rows, pass);
  else
    differentiate_all<512, V>(context, rows, pass);
  return true;
}

// ---- longer rows ----

/// The elements' terms of the gradients of weight and bias or, weighted, of their rows' sums.
template <class T>
struct Products {
  Rows rows;
  Backward<T> pass;
  bool weighted;
  template <int V>
  __device__ Pack<Sums, V> get(std::int64_t offset) const {
    static_assert(V == 1);
    const std::int64_t row = offset / rows.length;
    return {weighted ? pass.weighted(rows, row, offset - row * rows.length) : pass.product(row, offset)};
  }
  template <int V>
  bool packable() const {
    return V == 1;
  }
};

struct StoredSums {
  using State = Sums;
  Sums* out;
  __device__ State init() const { return {0, 0}; }
  __device__ void add(State& state, const Sums& value, std::int64_t) const { state = PlusSums{}(state, value); }
  __device__ State operator()(const State& a, const State& b) const { return PlusSums{}(a, b); }
  __device__ void store(std::int64_t output, const State& state) const { out[output] = state; }
};

/// The slices of each tile of columns; none if the gradients are not requested or reductions sum them.
template <class T>
Slices tile_slices(const Rows& rows, const Backward<T>& pass, std::int64_t tiles) {
  if (rows.area > 1 || (pass.grad_weight == nullptr && pass.grad_bias == nullptr)) return {0, 0};
  const std::int64_t samples = rows.count / rows.groups;
  // A second kernel costs about as much as 64 rows of a warp.
  return samples <= 512 ? Slices{1, samples} : slices_for(tiles, samples, 128);
}

template <int V, class T>
void differentiate(Context& context, const Rows& rows, Backward<T> pass) {
  if (differentiate_all<V>(context, rows, pass)) return;
  const std::int64_t columns = rows.groups * rows.channels, tiles = ceil_div(columns, tile_columns);
  const Slices slices = tile_slices(rows, pass, tiles);
  Scratch scratch(context, slices.count > 1 ? static_cast<std::size_t>(columns * slices.count) * sizeof(Sums) : 0);
  Sums* const partial = scratch.as<Sums>();
  const auto tile_blocks = static_cast<unsigned>(tiles * slices.count);
  const ParameterSums<T> parameters{pass.grad_weight, pass.grad_bias};
  bool held = pass.grad_x != nullptr && with_held<true>(rows.count, rows.length / V, [&](auto shape) {
                using Shape = decltype(shape);
                Grid grid = group_grid<Shape::threads>(rows.count);
                const unsigned row_blocks = grid.blocks.x;
                grid.blocks.x += tile_blocks;
                launch(context, grid, differentiate_kernel<Shape::threads, Shape::packs, V, T>, rows, pass, row_blocks,
                       slices, partial);
              });
  if (!held && tile_blocks > 0)
    launch(context, Grid(tile_blocks, 512), differentiate_kernel<512, 4, V, T>, rows, pass, 0u, slices, partial);
  if (partial != nullptr) combine(context, columns, slices.count, parameters, partial);
  if (!held && pass.grad_x != nullptr) {
    Scratch of_rows(context, static_cast<std::size_t>(rows.count) * sizeof(Sums));
    pass.sums = of_rows.as<Sums>();
    reduce<Sums>(context, Axis{rows.count, rows.length, 1}, StoredSums{of_rows.as<Sums>()},
                 Products<T>{rows, pass, true});
    over_elements<V>(context, rows, pass);
  }
  if (rows.area > 1 && (pass.grad_weight != nullptr || pass.grad_bias != nullptr)) {
    const std::int64_t planes = rows.count * rows.channels;
    Scratch of_planes(context, static_cast<std::size_t>(planes) * sizeof(Sums));
    reduce<Sums>(context, Axis{planes, rows.area, 1}, StoredSums{of_planes.as<Sums>()}, Products<T>{rows, pass, false});
    reduce<Sums>(context, Axis{1, rows.count / rows.groups, columns}, parameters, Elements<Sums>{of_planes.as<Sums>()});
  }
}

}  // namespace
}  // namespace row_normalization

template <class T>
void row_norm_backward(Context& context, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, const T* grad_y,
                       const T* x, const Scalar<T>* weight, const Scalar<T>* mean, const Scalar<T>* inverse_deviation,
                       const kernels::RowNorm& sizes) {
  const row_normalization::Rows rows(sizes);
  const row_normalization::Backward<T> pass{grad_x, grad_weight, grad_bias,         grad_y,        x,
                                            weight, mean,        inverse_deviation, sizes.centred, nullptr};
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
