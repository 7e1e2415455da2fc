// Rows with statistics of their own: layer, RMS, group and instance normalisation. A row that fits the registers of a
// warp or a block is read once, by one kernel; the blocks behind its gradient add up those of weight and bias in the
// same launch. Longer rows are gathered by the reductions, in double, and written by a second kernel.

#include "cuda/moments.cuh"
#include "cuda/row_norm.cuh"

namespace tern::cuda {
namespace {

using kernels::Axis;
using kernels::RowNorm;

/// The sums of gradients, and of them times the normalised x.
struct Sums {
  double gradient, product;
};

/// The sizes as the card wants them.
struct Rows {
  std::int64_t count, length, groups, area, channels;  ///< channels: of a row
  Divisor<std::uint32_t> by_area;
  bool narrow;  ///< positions in a row fit the divisor

  explicit Rows(const RowNorm& sizes)
      : count(sizes.rows),
        length(sizes.length),
        groups(sizes.groups),
        area(sizes.area),
        channels(sizes.length / sizes.area),
        by_area(sizes.area),
        narrow(sizes.length < (std::int64_t{1} << 31)) {}

  __device__ std::int64_t first_parameter(std::int64_t row) const { return groups == 1 ? 0 : row % groups * channels; }
  __device__ std::int64_t channel(std::int64_t i) const {
    return area == 1 ? i : narrow ? by_area.quotient(static_cast<std::uint32_t>(i)) : i / area;
  }
  /// Those of elements i to i + V of a row; `otherwise` where there are none.
  template <int V, class T>
  __device__ Pack<T, V> parameters(const T* values, std::int64_t first, std::int64_t i, T otherwise) const {
    Pack<T, V> pack;
    if (values != nullptr && area == 1) return load<V>(values + first + i);
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      pack.value[lane] = values == nullptr ? otherwise : values[first + channel(i + lane)];
    return pack;
  }
};

template <class T>
struct Forward {
  T *y, *mean, *inverse_deviation;
  const T *x, *weight, *bias;
  double epsilon;
  bool centred;

  /// In this order, inverse * weight need not be in T's range.
  template <int V>
  __device__ void write(T* to, const Pack<T, V>& in, T center, T inverse, const Pack<T, V>& scale,
                        const Pack<T, V>& shift) const {
    Pack<T, V> out;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      out.value[lane] = (in.value[lane] - center) * inverse * scale.value[lane] + shift.value[lane];
    store<V>(to, out);
  }
  /// Elements of a row whose statistics are stored.
  template <int V>
  __device__ void run(const Rows& rows, std::int64_t row, std::int64_t i) const {
    const std::int64_t first = rows.first_parameter(row), at = row * rows.length + i;
    write<V>(y + at, load<V>(x + at), mean == nullptr ? T(0) : mean[row], inverse_deviation[row],
             rows.parameters<V>(weight, first, i, T(1)), rows.parameters<V>(bias, first, i, T(0)));
  }
};

template <class T>
struct Backward {
  T *grad_x, *grad_weight, *grad_bias;
  const T *grad_y, *x, *weight, *mean, *inverse_deviation;
  bool centred;
  const Sums* sums;  ///< of rows that no registers hold

  __device__ T center(std::int64_t row) const { return mean == nullptr ? T(0) : mean[row]; }
  /// What an element gives to the gradients of weight and bias.
  __device__ Sums product(std::int64_t row, std::int64_t at) const {
    const double gradient = grad_y[at];
    return {gradient, gradient * ((x[at] - center(row)) * inverse_deviation[row])};
  }
  /// The same, weighted, to those of its row.
  __device__ Sums weighted(const Rows& rows, std::int64_t row, std::int64_t i) const {
    const Sums plain = product(row, row * rows.length + i);
    const double scale = rows.parameters<1>(weight, rows.first_parameter(row), i, T(1)).value[0];
    return {plain.gradient * scale, plain.product * scale};
  }
  /// The gradient of an element, in double.
  __device__ void write(const Rows& rows, std::int64_t row, std::int64_t i, const Sums& of_row) const {
    const std::int64_t at = row * rows.length + i;
    const double inverse = inverse_deviation[row], count = static_cast<double>(rows.length);
    const double normalized = (double{x[at]} - center(row)) * inverse;
    const double mean_gradient = centred ? of_row.gradient / count : 0;
    grad_x[at] = static_cast<T>(
        inverse * (weighted(rows, row, i).gradient - mean_gradient - normalized * (of_row.product / count)));
  }
  template <int V>
  __device__ void run(const Rows& rows, std::int64_t row, std::int64_t i) const {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) write(rows, row, i + lane, sums[row]);
  }
};

struct PlusSums {
  __device__ Sums operator()(const Sums& a, const Sums& b) const {
    return {a.gradient + b.gradient, a.product + b.product};
  }
};

// ---- rows in registers ----

/// The statistics of a row whose squares leave T's range: in double.
template <int Threads, class T>
__device__ __noinline__ void exact_statistics(const Forward<T>& pass, const T* in, std::int64_t length, T& center,
                                              T& inverse) {
  using Team = Group<Threads>;
  double sum = 0, squares = 0;
  for (std::int64_t i = Team::rank(); pass.centred && i < length; i += Threads) sum += in[i];
  const double exact = Team::reduce(sum, Plus{}) / static_cast<double>(length);
  for (std::int64_t i = Team::rank(); i < length; i += Threads) squares += (in[i] - exact) * (in[i] - exact);
  squares = Team::reduce(squares, Plus{}) / static_cast<double>(length);
  center = static_cast<T>(exact);
  inverse = static_cast<T>(1 / ::sqrt(squares + pass.epsilon));
}

template <int Threads, int Packs, int V, class T>
__device__ void normalize_row(const Rows& rows, const Forward<T>& pass, std::int64_t row) {
  using Team = Group<Threads>;
  const int length = static_cast<int>(rows.length);
  const T count = static_cast<T>(length), *const in = pass.x + row * length;
  const std::int64_t first = rows.first_parameter(row);
  const auto each = [&](auto use) {
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if (const int i = (Team::rank() + k * Threads) * V; i < length) use(k, i);
  };
  Pack<T, V> held[Packs], scale[Packs], shift[Packs];
  each([&](int k, int i) { held[k] = load<V>(in + i); });
  each([&](int k, int i) {  // asked for here, they arrive while the statistics are made
    scale[k] = rows.parameters<V>(pass.weight, first, i, T(1));
    shift[k] = rows.parameters<V>(pass.bias, first, i, T(0));
  });
  T center = 0, squares = 0;
  if (pass.centred) {
    each([&](int k, int) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) center += held[k].value[lane];
    });
    center = Team::reduce(center, Plus{}) / count;
  }
  each([&](int k, int) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const T deviation = held[k].value[lane] - center;
      squares += deviation * deviation;
    }
  });
  const T variance = Team::reduce(squares, Plus{}) / count;
  T inverse = 1 / ::sqrt(variance + static_cast<T>(pass.epsilon));
  if (!::isfinite(variance)) exact_statistics<Threads>(pass, in, length, center, inverse);
  if (Team::rank() == 0) {
    if (pass.mean != nullptr) pass.mean[row] = center;
    pass.inverse_deviation[row] = inverse;
  }
  each([&](int k, int i) {
    pass.template write<V>(pass.y + row * length + i, held[k], center, inverse, scale[k], shift[k]);
  });
}

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

template <int Threads, int Packs, int V, class T>
__device__ void differentiate_row(const Rows& rows, const Backward<T>& pass, std::int64_t row) {
  using Team = Group<Threads>;
  struct Both {
    T gradient, product;
  };
  const int length = static_cast<int>(rows.length);
  const T count = static_cast<T>(length), center = pass.center(row), inverse = pass.inverse_deviation[row];
  const std::int64_t first = rows.first_parameter(row), start = row * length;
  const auto each = [&](auto use) {
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if (const int i = (Team::rank() + k * Threads) * V; i < length) use(k, i);
  };
  Pack<T, V> gradient[Packs], normalized[Packs];
  Both sums{0, 0};
  each([&](int k, int i) {
    gradient[k] = load<V>(pass.grad_y + start + i);
    normalized[k] = load<V>(pass.x + start + i);
    const Pack<T, V> scale = rows.parameters<V>(pass.weight, first, i, T(1));
#pragma unroll
    for (int lane = 0; lane < V; ++lane) gradient[k].value[lane] *= scale.value[lane];
  });
  each([&](int k, int) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      normalized[k].value[lane] = (normalized[k].value[lane] - center) * inverse;
      sums.gradient += gradient[k].value[lane];
      sums.product += gradient[k].value[lane] * normalized[k].value[lane];
    }
  });
  sums = Team::reduce(sums, [](const Both& a, const Both& b) {
    return Both{a.gradient + b.gradient, a.product + b.product};
  });
  if (!::isfinite(sums.gradient) || !::isfinite(sums.product)) {
    differentiate_exactly<Threads>(rows, pass, row);
    return;
  }
  const T mean_gradient = pass.centred ? sums.gradient / count : T(0), mean_product = sums.product / count;
  each([&](int k, int i) {
    Pack<T, V> out;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      out.value[lane] = inverse * (gradient[k].value[lane] - mean_gradient - normalized[k].value[lane] * mean_product);
    store<V>(pass.grad_x + start + i, out);
  });
}

/// Rows for the blocks below `blocks`.
template <int Threads, class Work>
__device__ void for_rows(std::int64_t rows, unsigned blocks, Work work) {
  const std::int64_t step = std::int64_t{blocks} * (blockDim.x / Threads);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / Threads) + threadIdx.x / Threads; row < rows;
       row += step)
    work(row);
}

template <int Threads>
inline constexpr int block_threads = Threads > 128 ? Threads : 128;

template <int Threads, int Packs, int V, class T>
__global__ void __launch_bounds__(block_threads<Threads>) normalize_kernel(Rows rows, Forward<T> pass) {
  begin_kernel();
  for_rows<Threads>(rows.count, gridDim.x,
                    [&](std::int64_t row) { normalize_row<Threads, Packs, V>(rows, pass, row); });
}

// ---- weight and bias where the area is 1: columns of [samples, groups * length] ----

template <class T>
struct ParameterSums {
  using State = Sums;
  T *grad_weight, *grad_bias;
  __device__ State init() const { return {0, 0}; }
  __device__ void add(State& state, const Sums& value, std::int64_t) const { state = PlusSums{}(state, value); }
  __device__ State operator()(const State& a, const State& b) const { return PlusSums{}(a, b); }
  __device__ void store(std::int64_t parameter, const State& state) const {
    if (grad_weight != nullptr) grad_weight[parameter] = static_cast<T>(state.product);
    if (grad_bias != nullptr) grad_bias[parameter] = static_cast<T>(state.gradient);
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

/// The gradients of rows by the first `row_blocks` blocks, of weight and bias by the others.
template <int Threads, int Packs, int V, class T>
__global__ void __launch_bounds__(block_threads<Threads>)
    differentiate_kernel(Rows rows, Backward<T> pass, unsigned row_blocks, Slices slices, Sums* partial) {
  begin_kernel();
  if (blockIdx.x < row_blocks)
    for_rows<Threads>(rows.count, row_blocks,
                      [&](std::int64_t row) { differentiate_row<Threads, Packs, V>(rows, pass, row); });
  else
    sum_tile(rows, pass, slices, blockIdx.x - row_blocks, partial);
}

template <int Threads, int Packs>
struct HeldShape {
  static constexpr int threads = Threads, packs = Packs;
};

/// Calls `function(HeldShape<Threads, Packs>{})` with what suits rows of `packs` packs; false where none does.
template <class Function>
bool with_held(std::int64_t rows, std::int64_t packs, Function function) {
  if (packs <= 64)
    function(HeldShape<32, 2>{});
  else if (packs <= 256 && rows >= 2048)  // enough rows to fill the card with warps, which need no barriers
    function(HeldShape<32, 8>{});
  else if (packs <= 256)
    function(HeldShape<128, 2>{});
  else if (packs <= 512)
    function(HeldShape<256, 2>{});
  else if (packs <= 2048)
    function(HeldShape<512, 4>{});
  else
    return false;
  return true;
}

// ---- longer rows ----

template <class T>
struct Widened {
  const T* in;
  template <int V>
  __device__ Pack<double, V> get(std::int64_t offset) const {
    const Pack<T, V> narrow = load<V>(in + offset);
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

template <class T>
struct RowMoments : MomentsReducer<double> {
  T *mean, *inverse_deviation;
  double epsilon;
  bool centred;
  using MomentsReducer<double>::add;
  __device__ void add(State& state, double value, std::int64_t) const { add(state, value); }
  __device__ void store(std::int64_t row, const State& state) const {
    if (mean != nullptr) mean[row] = static_cast<T>(state.mean);
    const double squares = state.squares / state.count + (centred ? 0 : state.mean * state.mean);
    inverse_deviation[row] = static_cast<T>(1 / ::sqrt(squares + epsilon));
  }
};

/// What the elements give to the gradients of weight and bias, or, weighted, to those of their rows.
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

template <int V, class Index, class Pass>
__global__ void elements_kernel(Index packs, Divisor<Index> row_packs, Rows rows, Pass pass) {
  begin_kernel();
  const Index step = static_cast<Index>(global_threads());
  for (Index i = static_cast<Index>(global_thread()); i < packs; i += step) {
    const Index row = row_packs.quotient(i);
    pass.template run<V>(rows, static_cast<std::int64_t>(row),
                         static_cast<std::int64_t>(i - row * row_packs.value()) * V);
  }
}

/// Runs `pass` on the elements of rows whose statistics, or sums, are known.
template <int V, class Pass>
void over_elements(Context& context, const Rows& rows, const Pass& pass) {
  const std::int64_t row_packs = rows.length / V, packs = rows.count * row_packs;
  with_index(packs, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(packs), 256), elements_kernel<V, Index, Pass>, static_cast<Index>(packs),
           Divisor<Index>(row_packs), rows, pass);
  });
}

/// Whether packs of V elements of rows and parameters may be read.
template <int V, class T>
bool packable(const RowNorm& sizes, std::initializer_list<const T*> pointers) {
  bool all = sizes.length % V == 0;
  for (const T* pointer : pointers) all = all && aligned<V>(pointer);
  return all;
}

template <int V, class T>
void normalize(Context& context, const Rows& rows, const Forward<T>& pass) {
  const bool held = with_held(rows.count, rows.length / V, [&](auto shape) {
    using Shape = decltype(shape);
    launch(context, group_grid<Shape::threads>(rows.count), normalize_kernel<Shape::threads, Shape::packs, V, T>, rows,
           pass);
  });
  if (held) return;
  reduce<T>(context, Axis{rows.count, rows.length, 1},
            RowMoments<T>{{}, pass.mean, pass.inverse_deviation, pass.epsilon, pass.centred}, Widened<T>{pass.x});
  over_elements<V>(context, rows, pass);
}

/// The slices of each tile of columns; none where nobody asks for the gradients or reductions sum them.
template <class T>
Slices tile_slices(const Rows& rows, const Backward<T>& pass, std::int64_t tiles) {
  if (rows.area > 1 || (pass.grad_weight == nullptr && pass.grad_bias == nullptr)) return {0, 0};
  const std::int64_t samples = rows.count / rows.groups;
  // A second kernel costs about as much as 64 rows of a warp.
  return samples <= 512 ? Slices{1, samples} : slices_for(tiles, samples, 128);
}

template <int V, class T>
void differentiate(Context& context, const Rows& rows, Backward<T> pass) {
  const std::int64_t columns = rows.groups * rows.channels, tiles = ceil_div(columns, tile_columns);
  const Slices slices = tile_slices(rows, pass, tiles);
  Scratch scratch(context, slices.count > 1 ? static_cast<std::size_t>(columns * slices.count) * sizeof(Sums) : 0);
  Sums* const partial = scratch.as<Sums>();
  const auto tile_blocks = static_cast<unsigned>(tiles * slices.count);
  const ParameterSums<T> parameters{pass.grad_weight, pass.grad_bias};
  bool held = pass.grad_x != nullptr && with_held(rows.count, rows.length / V, [&](auto shape) {
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

template <class T>
void row_norm(Context& context, T* y, T* mean, T* inverse_deviation, const T* x, const T* weight, const T* bias,
              const RowNorm& sizes) {
  const Rows rows(sizes);
  const Forward<T> pass{y, mean, inverse_deviation, x, weight, bias, sizes.epsilon, sizes.centred};
  constexpr int V = pack_size<T>;
  if (packable<V, T>(sizes, {x, y, weight, bias}))
    normalize<V>(context, rows, pass);
  else
    normalize<1>(context, rows, pass);
}

template <class T>
void row_norm_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                       const T* weight, const T* mean, const T* inverse_deviation, const RowNorm& sizes) {
  const Rows rows(sizes);
  const Backward<T> pass{grad_x, grad_weight, grad_bias,         grad_y,        x,
                         weight, mean,        inverse_deviation, sizes.centred, nullptr};
  constexpr int V = pack_size<T>;
  if (packable<V, T>(sizes, {grad_x, grad_y, x, weight}))
    differentiate<V>(context, rows, pass);
  else
    differentiate<1>(context, rows, pass);
}

#define TERN_INSTANTIATE(T)                                                                               \
  template void row_norm(Context&, T*, T*, T*, const T*, const T*, const T*, const kernels::RowNorm&);    \
  template void row_norm_backward(Context&, T*, T*, T*, const T*, const T*, const T*, const T*, const T*, \
                                  const kernels::RowNorm&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
