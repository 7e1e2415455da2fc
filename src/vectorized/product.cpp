#include "vectorized/product.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "vectorized/bfloat16/product.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/chains.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized::product {
namespace {

// Bytes of k that a panel spans, so that a tile's rows of a stay in the first-level cache.
constexpr std::int64_t depth_bytes = 2048;

// Rows that are read concurrently, each from begin to end, if b comes from memory and is not packed. In strips of
// columns every row would be another page: 15 instead of 6 ms for 1 x 4096 x 9216 on two cores.
constexpr std::int64_t streams = 16;

// Where the tiles of a are kept: their bytes, or more with a large second-level cache, and the columns that read them.
constexpr std::int64_t tiles_bytes = 2 * 1024 * 1024, group_columns = 4096;

// Products of at most this many elements are sliced along k, in slices of at least this length.
constexpr std::int64_t sliced_size = 64 * 64, slice_length = 4096, most_slices = 16;

// Cycles: half a cycle per fused multiply-add of a vector, plus the cost of moving data.

struct Sizes {
  double rows, columns, k;
};
Sizes sizes(const kernels::Matmul& shape) {
  return {static_cast<double>(shape.m), static_cast<double>(shape.n), static_cast<double>(shape.k)};
}

template <class T>
double vectors(std::int64_t items) {
  return static_cast<double>(divide_up(items, gemm_kernels<T>().lanes));
}

template <class T>
double panels_cycles(const Problem& problem) {
  const auto& shape = problem.shape;
  const auto [rows, columns, k] = sizes(shape);
  return 0.5 * k * vectors<T>(shape.n) * (rows + 1) + k * columns * (shape.transpose_b ? 0.3 : 0.1);
}

template <class T>
double transposed_cycles(const Problem& problem) {
  const auto& shape = problem.shape;
  const auto [rows, columns, k] = sizes(shape);
  // Rows of c^T that fill no vector are slow to transpose, columns of b that are not contiguous to fetch.
  const std::int64_t lanes = gemm_kernels<T>().lanes;
  const double moved = shape.m % lanes == 0 ? 0.5 * rows : 1.5 * static_cast<double>(round_up(shape.m, lanes));
  return 0.5 * k * vectors<T>(shape.m) * (columns + 1) + k * rows * (shape.transpose_a ? 0.1 : 0.3) + moved * columns +
         (shape.transpose_b ? 0 : 0.5 * k * columns);
}

template <class T>
double dots_cycles(const Problem& problem) {
  const auto [rows, columns, k] = sizes(problem.shape);
  return (0.6 * vectors<T>(problem.shape.k) + 5) * rows * columns;
}

/// relu, relu6; keeps NaN.
template <class T>
T clipped(T value, T top) {
  value = value < T{0} ? T{0} : value;
  return value > top ? top : value;
}

bool dots_fit(const Problem& problem) { return !problem.shape.transpose_a && problem.shape.transpose_b; }
template <class T, const bfloat16::Kernels* (*kernels)()>
bool tiles_fit(const Problem& problem) {
  return std::is_same_v<T, float> && problem.precision == Precision::bf16 && kernels() != nullptr;
}
template <const bfloat16::Kernels* (*kernels)()>
double tiles_cycles(const Problem& problem) {
  return Bfloat16Product::cycles(problem.shape, *kernels());
}

/// Panels of op(b); c^T = op(b)^T op(a)^T with panels of op(a)^T, if that packs less or wastes fewer lanes; vectors
/// along k; tiles of factors in bfloat16. Algorithms of one kind stand together.
template <class T>
constexpr Algorithm<T> algorithms[]{
    {{.name = "panels", .cost = panels_cycles<T>}, &Plan<T>::run_panels},
    {{.name = "transposed", .cost = transposed_cycles<T>}, &Plan<T>::run_transposed, Sums::chains, true},
    {{.name = "dots", .fits = dots_fit, .cost = dots_cycles<T>}, &Plan<T>::run_dots, Sums::vectors},
    {{.name = "avx512_bf16",
      .fits = tiles_fit<T, bfloat16::avx512_kernels>,
      .cost = tiles_cycles<bfloat16::avx512_kernels>},
     nullptr,
     Sums::tiles,
     false,
     bfloat16::avx512_kernels},
    {{.name = "amx", .fits = tiles_fit<T, bfloat16::amx_kernels>, .cost = tiles_cycles<bfloat16::amx_kernels>},
     nullptr,
     Sums::tiles,
     false,
     bfloat16::amx_kernels}};

template <class T>
constexpr auto candidates = [] {
  std::array<const kernels::Algorithm<Problem, Arrays<T>>*, std::size(algorithms<T>)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = &algorithms<T>[i];
  return all;
}();

}  // namespace

template <class T>
Choice<T> choose(const Context& context, const char* decision, const Problem& problem) {
  const Candidates<T> all = candidates<T>;
  const auto* const chosen = kernels::chosen_by_rule(context, decision, all, problem).algorithm;
  const auto place = static_cast<std::size_t>(std::ranges::find(all, chosen) - all.begin());
  const bool forced = forced_algorithm(context, decision) == chosen->name;
  const bool chains = static_cast<const Algorithm<T>*>(chosen)->sums == Sums::chains;
  const auto& shape = problem.shape;
  const std::int64_t elements = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n;
  const double cycles = chosen->cost(problem), bytes = static_cast<double>(elements) * sizeof(T);
  return {chains && !forced ? all.first(2) : all.subspan(place, 1),
          std::max(cycles / 3, bytes / 32) * static_cast<double>(shape.batch)};  // few rows: bound by memory
}

template <class T>
bool Plan<T>::in_place(std::int64_t m) const {
  return !problem_.shape.transpose_b && m <= gemm_kernels<T>().tile_rows;
}

template <class T>
Plan<T>::Plan(const Problem& problem, const Arrays<T>& arrays, Candidates<T> algorithms)
    : problem_(problem), arrays_(arrays), algorithm_(static_cast<const Algorithm<T>*>(algorithms[0])) {
  const auto& shape = problem_.shape;
  const std::int64_t m = shape.m, n = shape.n, k = shape.k, threads = problem.threads;
  const auto& kernels = gemm_kernels<T>();

  if (packs_first()) return;
  if (m * n <= sliced_size) slices_ = std::clamp<std::int64_t>(k / slice_length, 1, most_slices);
  chain_ = chain_length(divide_up(k, slices_));

  // The gradient of a weight is divided by rows, if that costs about the same: so is the weight itself, in the forward
  // pass and by the optimiser, and each thread finds its part in its cache.
  const double margin = shape.transpose_a ? 1.02 : 1;
  double best = -1;
  for (std::int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    const std::int64_t column_parts = threads / row_parts;
    if (row_parts > m || column_parts > n) continue;
    Problem part = problem_;
    part.shape.m = divide_up(m, row_parts);
    part.shape.n = divide_up(n, column_parts);
    const auto* const algorithm = kernels::chosen_by_rule(algorithms, part).algorithm;
    const double cycles = algorithm->cost(part);
    if (best >= 0 && cycles >= margin * best) continue;
    best = cycles;
    algorithm_ = static_cast<const Algorithm<T>*>(algorithm);
    row_parts_ = row_parts;
    column_parts_ = column_parts;
  }
  if (shape.batch >= 2 * threads || slices_ >= 2 * threads) row_parts_ = column_parts_ = 1;
  if (algorithm_->sums != Sums::chains || m == 0 || n == 0) return;

  const auto element = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t longest = divide_up(k, slices_);
  block_k_ = std::max<std::int64_t>(
      1, divide_up(longest, std::max<std::int64_t>(1, divide_up(longest * element, depth_bytes))));
  if (!algorithm_->transposes && in_place(divide_up(m, row_parts_)) && k * n * element > 2 * block_bytes())
    block_k_ = std::min(block_k_, streams);
  const std::int64_t width = kernels.panel_width;
  const std::int64_t packed_side = algorithm_->transposes ? m : n;
  const std::int64_t most = std::max<std::int64_t>(1, block_bytes() / element / block_k_ / width) * width;
  const std::int64_t blocks = divide_up(packed_side, most);
  block_columns_ = divide_up(divide_up(packed_side, blocks), width) * width;
  packed_ = round_up(block_k_ * block_columns_, 16);
  const std::int64_t part_rows = divide_up(m, row_parts_);
  const std::int64_t part_columns = divide_up(divide_up(n, kernels.lanes), column_parts_) * kernels.lanes;
  group_rows_ = algorithm_->transposes ? divide_up(n, column_parts_) : part_rows;
  group_columns_ = block_columns_;
  if (keeps_tiles(part_rows, part_columns)) {
    const std::int64_t most_rows = std::max(tiles_bytes, 4 * block_bytes()) / element / block_k_;
    const std::int64_t most_columns = chain_ < longest ? group_columns / 4 : group_columns;
    group_rows_ = round_up(divide_up(part_rows, divide_up(part_rows, most_rows)), kernels.tile_rows);
    group_columns_ = round_up(divide_up(part_columns, divide_up(part_columns, most_columns)), block_columns_);
    tiles_ = round_up(group_rows_ * block_k_, 16);
  }
  if (algorithm_->transposes) transposed_ = round_up((group_rows_ + kernels.tile_rows) * scratch_row(), 16);
  if (chain_ < longest) later_ = round_up(group_rows_ * scratch_row(), 16);
}

template <class T>
bool Plan<T>::keeps_tiles(std::int64_t rows, std::int64_t columns) const {
  if (algorithm_->transposes || in_place(rows) || columns <= block_columns_) return false;
  // Rows that collide in the first-level cache, columns of which each is in another page.
  constexpr std::int64_t colliding = 4096;
  return problem_.shape.transpose_a || problem_.shape.k * static_cast<std::int64_t>(sizeof(T)) % colliding == 0;
}

template <class T>
Bfloat16Product Plan<T>::tiles() const {
  if constexpr (std::is_same_v<T, float>)
    return {problem_, arrays_, *algorithm_->kernels()};
  else
    return {};
}

template <class T>
std::int64_t Plan<T>::shared() const {
  if (packs_first()) return tiles().shared();
  return slices_ == 1 ? 0 : slices_ * size();
}

template <class T>
void Plan<T>::pack(const Team& team, T* shared) const {
  if (packs_first()) tiles().pack(team, shared);
}

template <class T>
std::int64_t Plan<T>::parts() const {
  if (packs_first()) return tiles().parts();
  return problem_.shape.batch * slices_ * row_parts_ * column_parts_;
}

template <class T>
void Plan<T>::run(std::int64_t begin, std::int64_t end, T* scratch, T* shared) const {
  if (packs_first()) return tiles().run(begin, end, shared);
  for (std::int64_t part = begin; part < end; ++part) run_part(part, scratch, shared);
}

template <class T>
void Plan<T>::run_part(std::int64_t part, T* scratch, T* partials) const {
  const auto& shape = problem_.shape;
  const auto& kernels = gemm_kernels<T>();
  const std::int64_t column_part = part % column_parts_;
  part /= column_parts_;
  const std::int64_t row_part = part % row_parts_;
  part /= row_parts_;
  const std::int64_t slice = part % slices_, batch = part / slices_;

  const std::int64_t row_unit = algorithm_->transposes ? kernels.lanes : 1;
  const std::int64_t column_unit = algorithm_->transposes ? 1 : kernels.lanes;
  const std::int64_t row = edge(shape.m, row_unit, row_parts_, row_part);
  const std::int64_t column = edge(shape.n, column_unit, column_parts_, column_part);
  Part<T> work{};
  work.m = edge(shape.m, row_unit, row_parts_, row_part + 1) - row;
  work.n = edge(shape.n, column_unit, column_parts_, column_part + 1) - column;
  if (work.m <= 0 || work.n <= 0) return;
  work.first_k = shape.k * slice / slices_;
  work.k = shape.k * (slice + 1) / slices_ - work.first_k;
  work.a = arrays_.a + batch * shape.stride_a + (shape.transpose_a ? row : row * shape.k);
  work.b = arrays_.b + batch * shape.stride_b + (shape.transpose_b ? column * shape.k : column);
  T* const c = slices_ == 1 ? arrays_.c : partials + slice * size();
  work.c = c + (batch * shape.m + row) * shape.n + column;
  work.bias = arrays_.column_bias == nullptr || slice > 0 ? nullptr : arrays_.column_bias + column;

  (this->*algorithm_->multiply)(work, scratch);
}

template <class T>
void Plan<T>::run_dots(const Part<T>& part, T* /*scratch*/) const {
  const auto& shape = problem_.shape;
  const Run run{.k = part.k};
  sum_kernels<T>().dots({.c = part.c,
                         .c_row = shape.n,
                         .a = part.a + part.first_k,
                         .a_row = shape.k,
                         .b = part.b + part.first_k,
                         .b_row = shape.k,
                         .m = part.m,
                         .n = part.n,
                         .runs = &run,
                         .run_count = 1,
                         .column_bias = part.bias,
                         .relu = clips(problem_.activation) && slices_ == 1,
                         .top = top_of<T>(problem_.activation)});
}

template <class T>
template <class Multiply>
void Plan<T>::run_chains(Block<T> block, std::int64_t k, bool clip, T* later, const Multiply& multiply) const {
  T* const c = block.c;
  const std::int64_t c_row = block.c_row;
  block.top = top_of<T>(problem_.activation);
  std::int64_t first = 0;
  do {
    block.k = within_chain(first, k, chain_, block_k_);
    const std::int64_t last = first + block.k;
    block.accumulate = first % chain_ > 0;
    block.relu = clip && last == k && k <= chain_;
    if (first == chain_) {
      block.c = later;
      block.c_row = scratch_row();
      block.row_bias = block.column_bias = nullptr;
    }
    multiply(block, first);
    first = last;
    if (first > chain_ && (first % chain_ == 0 || first == k))
      add_chain(c, c_row, later, block.c_row, block.m, block.n);
  } while (first < k);
  if (!clip || k <= chain_) return;
  for (std::int64_t i = 0; i < block.m; ++i)
    for (std::int64_t j = 0; j < block.n; ++j) c[i * c_row + j] = clipped(c[i * c_row + j], block.top);
}

/// All blocks of columns of a group for one block of k: the first keeps the tiles of a for the others.
template <class T>
void Plan<T>::multiply_group(const Part<T>& part, Block<T> group, std::int64_t column, std::int64_t from,
                             T* packed) const {
  const auto& kernels = gemm_kernels<T>();
  const auto& shape = problem_.shape;
  const std::int64_t width = kernels.panel_width, b_row = shape.transpose_b ? shape.k : shape.n;
  T* const tiles = tiles_ == 0 ? nullptr : packed + packed_ + later_;
  if (tiles != nullptr && shape.transpose_a) {
    kernels.pack_tiles(tiles, group.a, shape.m, group.m, group.k);
    group.a_tiles = true;
  } else {
    group.tiles = tiles;
  }
  for (std::int64_t j = 0; j < group.n; j += block_columns_) {
    if (group.a_tiles) group.a = tiles;
    std::int64_t columns = std::min(block_columns_, group.n - j);
    const T* b = part.b + (shape.transpose_b ? (column + j) * shape.k + from : from * shape.n + column + j);
    Block<T> block = group;
    block.c += j;
    if (block.column_bias != nullptr) block.column_bias += j;
    if (in_place(part.m)) {  // except the last columns
      block.n = columns / width * width;
      block.b = b;
      block.b_row = b_row;
      block.b_panel = width;
      kernels.multiply(block);
      columns -= block.n;
      if (columns == 0) continue;
      b += block.n;
      block.c += block.n;
      if (block.column_bias != nullptr) block.column_bias += block.n;
    }
    if (shape.transpose_b)
      kernels.pack_transposed(packed, b, b_row, block.k, columns);
    else
      kernels.pack(packed, b, b_row, block.k, columns);
    block.n = columns;
    block.b = packed;
    block.b_row = width;
    block.b_panel = block.k * width;
    kernels.multiply(block);
    group.a_tiles = tiles != nullptr;
    group.tiles = nullptr;
  }
}

template <class T>
void Plan<T>::run_panels(const Part<T>& part, T* packed) const {
  const auto& shape = problem_.shape;
  Block<T> group;
  group.a_row = shape.transpose_a ? 1 : shape.k;
  group.a_column = shape.transpose_a ? shape.m : 1;
  group.c_row = shape.n;
  for (std::int64_t row = 0; row < part.m; row += group_rows_)
    for (std::int64_t column = 0; column < part.n; column += group_columns_) {
      group.m = std::min(group_rows_, part.m - row);
      group.n = std::min(group_columns_, part.n - column);
      group.c = part.c + row * shape.n + column;
      group.column_bias = part.bias == nullptr ? nullptr : part.bias + column;
      run_chains(group, part.k, clips(problem_.activation) && slices_ == 1, packed + packed_,
                 [&](Block<T> block, std::int64_t first) {
                   const std::int64_t from = part.first_k + first;
                   block.a = part.a + row * block.a_row + from * block.a_column;
                   multiply_group(part, block, column, from, packed);
                 });
    }
}

template <class T>
void Plan<T>::run_transposed(const Part<T>& part, T* packed) const {
  T* const transposed = packed + packed_;
  const auto& kernels = gemm_kernels<T>();
  const auto& shape = problem_.shape;
  const std::int64_t width = kernels.panel_width;
  for (std::int64_t column = 0; column < part.m; column += block_columns_) {  // of c^T
    const std::int64_t columns = std::min(block_columns_, part.m - column);
    Block<T> whole;
    whole.m = part.n;
    whole.n = round_up(columns, kernels.lanes);  // a part of a vector is slow to store; the panels have zeros there
    whole.a_row = shape.transpose_b ? shape.k : 1;
    whole.a_column = shape.transpose_b ? 1 : shape.n;
    whole.b = packed;
    whole.b_row = width;
    whole.c = transposed;
    whole.c_row = scratch_row();
    whole.row_bias = part.bias;
    run_chains(whole, part.k, clips(problem_.activation) && slices_ == 1, transposed + transposed_,
               [&](Block<T> block, std::int64_t first) {
                 const std::int64_t from = part.first_k + first;
                 if (shape.transpose_a)
                   kernels.pack(packed, part.a + from * shape.m + column, shape.m, block.k, columns);
                 else
                   kernels.pack_transposed(packed, part.a + column * shape.k + from, shape.k, block.k, columns);
                 block.a = part.b + (shape.transpose_b ? from : from * shape.n);
                 block.b_panel = block.k * width;
                 kernels.multiply(block);
               });
    kernels.transpose(part.c + column * shape.n, shape.n, transposed, scratch_row(), part.n, columns);
  }
}

template <class T>
void Plan<T>::add(const T* partials) const {
  if (slices_ == 1) return;
  const T top = top_of<T>(problem_.activation);
  for (std::int64_t i = 0; i < size(); ++i) {
    T total = partials[i];
    for (std::int64_t slice = 1; slice < slices_; ++slice) total += partials[slice * size() + i];
    arrays_.c[i] = clips(problem_.activation) ? clipped(total, top) : total;
  }
}

template Choice<float> choose(const Context&, const char*, const Problem&);
template Choice<double> choose(const Context&, const char*, const Problem&);
template class Plan<float>;
template class Plan<double>;

}  // namespace tern::vectorized::product
