#include <cooperative_groups.h>

#include "cuda/branches.cuh"
#include "cuda/label_loss.cuh"
#include "cuda/rows.cuh"

namespace tern::cuda {
namespace {

using kernels::CrossEntropy;
using kernels::Reduce;

template <class T>
__device__ constexpr T quiet_nan() {
  return std::numeric_limits<T>::quiet_NaN();
}

// ---- losses of labelled rows ----

/// The loss of some rows, and how many of them count.
template <class T>
struct RowsReducer {
  struct State {
    T loss, rows;
  };
  T* out;
  bool mean;
  __device__ State init() const { return {0, 0}; }
  __device__ State operator()(const State& a, const State& b) const { return {a.loss + b.loss, a.rows + b.rows}; }
  __device__ void store(std::int64_t output, const State& state) const {
    out[output] = mean ? state.loss / state.rows : state.loss;
  }
};

template <class T>
struct CrossEntropyGradient {
  const T* probabilities;
  T at_label, elsewhere;  ///< the target
  template <int V>
  __device__ Pack<T, V> input(std::int64_t i) const {
    return load<V>(probabilities + i);
  }
  __device__ T operator()(T scale, T probability, bool is_label) const {
    return scale * (probability - (is_label ? at_label : elsewhere));
  }
};

template <class S>
__device__ S cross_entropy_of(const Exponentials<S>& row, S logit, S smoothing) {
  // Neither term is negative: the largest logit alone adds 1 to the sum.
  const S normaliser = ::log(row.sum), at_label = normaliser + (row.largest - logit);
  return smoothing == 0 ? at_label : (1 - smoothing) * at_label + smoothing * (normaliser + row.below / row.count);
}

/// The loss of one row: all threads of its group call `run` and get the same result, from the data that `hold` has
/// loaded. A label below 0 does not count. Its gradient is multiplied by `scale`; 0 means that the row does not count.
template <class T>
struct CrossEntropyRow {
  using S = Scalar<T>;
  S* probabilities;
  T* grad_logits;
  const T* logits;
  S smoothing;
  CrossEntropyGradient<S> gradient;
  __device__ bool has_gradient() const { return grad_logits != nullptr; }
  template <class Walk>
  __device__ HeldElements<Walk, T> hold(const Walk& walk) const {
    return {walk, logits};
  }
  template <class Walk>
  __device__ S run(const Walk& walk, const HeldElements<Walk, T>& held, std::int64_t label, S scale) const {
    const S logit = label >= 0 ? widened(logits[walk.at(label)]) : S(0);
    const SoftmaxRow<Walk, T> row(walk, held);
    walk.each([&](int k, std::int64_t i) {
      const S probability = row.probability(k);
      if (probabilities != nullptr) probabilities[walk.at(i)] = probability;
      if (has_gradient()) put(grad_logits[walk.at(i)], scale == 0 ? S(0) : gradient(scale, probability, i == label));
    });
    S below = 0;
    if (smoothing != 0) {
      walk.each([&](int, std::int64_t i) { below += row.largest - widened(logits[walk.at(i)]); });
      below = walk.reduce(below, Plus{});
    }
    return cross_entropy_of(Exponentials<S>{row.largest, row.sum, static_cast<S>(walk.length), below}, logit,
                            smoothing);
  }
};

/// The same for a warp, from the exponentials of the row's parts.
template <class T>
struct CrossEntropyLongRow {
  using S = Scalar<T>;
  const T* logits;
  const Exponentials<S>* states;  ///< [rows, parts]
  std::int64_t parts;
  S smoothing;
  __device__ bool has_gradient() const { return false; }
  struct Nothing {};
  template <class Walk>
  __device__ Nothing hold(const Walk&) const {
    return {};
  }
  template <class Walk>
  __device__ S run(const Walk& walk, Nothing, std::int64_t label, S) const {
    const S logit = label >= 0 ? widened(logits[walk.at(label)]) : S(0);
    return cross_entropy_of(joined(states, walk.base / walk.length, parts), logit, smoothing);
  }
};

template <class T>
struct NllRow {
  const T* log_probabilities;
  __device__ bool has_gradient() const { return false; }
  struct Nothing {};
  template <class Walk>
  __device__ Nothing hold(const Walk&) const {
    return {};
  }
  template <class Walk>
  __device__ Scalar<T> run(const Walk& walk, Nothing, std::int64_t label, Scalar<T>) const {
    return label >= 0 ? -widened(log_probabilities[walk.at(label)]) : Scalar<T>(0);
  }
};

/// The largest block that the registers of a held row allow.
template <class Shape>
inline constexpr int most_threads = Shape::threads > 32 ? 512
                                    : Shape::items > 8  ? 256
                                                        : 1024;

template <class T, class Row>
struct LossArguments {
  T* loss;
  const std::int64_t* labels;
  CrossEntropy sizes;
  Row row_loss;
  FaultCell* cell;
  typename RowsReducer<T>::State* partial;  ///< null: one cluster, which stores the reduced loss
};

/// The sum over the blocks of a cluster, in order, for the first thread of the first block.
template <class State, class Combine>
__device__ State reduce_cluster(State state, const Combine& combine) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ alignas(State) unsigned char storage[sizeof(State)];
  State& of_block = *reinterpret_cast<State*>(storage);
  auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) of_block = state;
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0)
    for (unsigned other = 1; other < cluster.num_blocks(); ++other)
      state = combine(state, *cluster.map_shared_rank(&of_block, other));
  cluster.sync();  // nobody leaves while its sum is being read
#endif
  return state;
}

/// With Reduce::none each row stores its own loss. Gradients of a mean need one cluster, whose blocks see all labels.
template <class Shape, class T, class Row, bool Shared>
__global__ void __launch_bounds__(most_threads<Shape>)
    label_loss_kernel(const __grid_constant__ KernelArguments<LossArguments<T, Row>, Shared> passed) {
  const auto& mine = passed.mine();
  begin_kernel();
  const CrossEntropy& sizes = mine.sizes;
  constexpr int Threads = Shape::threads;
  const RowsReducer<T> reducer{mine.loss, sizes.reduce == Reduce::mean};
  auto state = reducer.init();
  T scale = 1;
  bool counts = mine.row_loss.has_gradient() && sizes.reduce == Reduce::mean;
  const std::int64_t groups = blockDim.x / Threads;
  for (std::int64_t first = blockIdx.x * groups; first < sizes.rows; first += gridDim.x * groups) {
    const std::int64_t row = first + threadIdx.x / Threads;
    const bool exists = row < sizes.rows;
    const typename Shape::Walk walk{row * sizes.classes, exists ? sizes.classes : 0};
    const auto held = mine.row_loss.hold(walk);
    const std::int64_t label = exists ? mine.labels[row] : sizes.ignore_index;
    if (counts) {  // while the row's loads are in flight
      int rows = 0;
      for (std::int64_t begin = 0; begin < sizes.rows; begin += blockDim.x) {
        const std::int64_t other = begin + threadIdx.x;
        rows += __syncthreads_count(other < sizes.rows && mine.labels[other] != sizes.ignore_index);
      }
      scale = 1 / static_cast<T>(rows);
      counts = false;
    }
    if (!exists) continue;
    const bool ignored = label == sizes.ignore_index, bad = !ignored && (label < 0 || label >= sizes.classes);
    T cost = mine.row_loss.run(walk, held, ignored || bad ? -1 : label, ignored ? T(0) : bad ? quiet_nan<T>() : scale);
    if (Group<Threads>::rank() != 0) continue;
    if (bad) report(mine.cell, Fault::label, label, sizes.classes);
    cost = bad ? quiet_nan<T>() : ignored ? T(0) : cost;
    if (sizes.reduce == Reduce::none)
      mine.loss[row] = cost;
    else
      state = reducer(state, {cost, ignored ? T(0) : T(1)});
  }
  if (sizes.reduce == Reduce::none) return;
  state = reduce_block(state, reducer);
  if (mine.partial == nullptr && gridDim.x > 1) state = reduce_cluster(state, reducer);
  if (threadIdx.x != 0) return;
  if (mine.partial != nullptr)
    mine.partial[blockIdx.x] = state;
  else if (blockIdx.x == 0)
    reducer.store(0, state);
}

/// How many blocks of a cluster share the rows of a reduced loss; 0 if a few iterations of them are not enough.
template <class Shape>
unsigned blocks_of_cluster(const CrossEntropy& sizes) {
  constexpr unsigned largest = 8;  // supported by every card with clusters
  constexpr std::int64_t turn = most_threads<Shape> / Shape::threads;
  if (Shape::threads > 32 || sizes.reduce == Reduce::none) return 0;
  const unsigned blocks = card().overlap && sizes.rows > turn ? largest : 1;
  return sizes.rows <= 4 * blocks * turn ? blocks : 0;
}

template <class Shape, class T, class Row>
void label_loss(Context& context, T* loss, const std::int64_t* labels, const CrossEntropy& sizes, const Row& row) {
  using State = typename RowsReducer<T>::State;
  constexpr int Threads = Shape::threads;
  LossArguments<T, Row> arguments{loss, labels, sizes, row, fault_cell(context), nullptr};
  const auto kernel_of = [](auto shared) { return label_loss_kernel<Shape, T, Row, shared>; };
  if (const unsigned blocks = blocks_of_cluster<Shape>(sizes); blocks > 0) {
    const std::int64_t groups = most_threads<Shape> / Threads, rows = ceil_div(sizes.rows, blocks);
    const auto threads = static_cast<unsigned>(std::max<std::int64_t>(std::min(rows, groups), 1) * Threads);
    Grid grid(blocks, static_cast<unsigned>(ceil_div(threads, 32) * 32));
    grid.cluster = blocks;
    launch_shared(context, grid, arguments, kernel_of);
    return;
  }
  const unsigned threads = Threads > 256 ? Threads : 256;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(sizes.rows * Threads, threads), 1,
                                                                     sizes.reduce == Reduce::none ? 1 << 30 : 1024));
  if (sizes.reduce == Reduce::none) {
    launch_shared(context, Grid(blocks, threads), arguments, kernel_of);
    return;
  }
  const Scratch partial(context, blocks * sizeof(State));
  arguments.partial = partial.as<State>();
  launch_shared(context, Grid(blocks, threads), arguments, kernel_of);
  combine(context, 1, blocks, RowsReducer<T>{loss, sizes.reduce == Reduce::mean}, partial.as<State>());
}

// ---- their gradients ----

/// The number of labels that count among those of this block's threads.
__device__ int counted(const std::int64_t* labels, const CrossEntropy& sizes, std::int64_t first, std::int64_t step) {
  int rows = 0;
#pragma unroll 4
  for (std::int64_t row = first; row < sizes.rows; row += step) rows += labels[row] != sizes.ignore_index;
  return reduce_block(rows, Plus{});
}

/// Blocks of the counting kernel, and threads of the kernel that sums their counts.
inline constexpr unsigned count_blocks = 256;

__global__ void count_kernel(const std::int64_t* labels, CrossEntropy sizes, std::int64_t* partial) {
  begin_kernel();
  const int rows = counted(labels, sizes, global_thread(), global_threads());
  if (threadIdx.x == 0) partial[blockIdx.x] = rows;
}

template <class T>
struct NllGradient {
  template <int V>
  __device__ Pack<T, V> input(std::int64_t) const {
    return {};
  }
  __device__ T operator()(T scale, T, bool is_label) const { return is_label ? -scale : T(0); }
};

template <class T, class Gradient>
struct GradientArguments {
  T* grad_in;
  const Scalar<T>* grad_loss;  ///< null: 1
  const std::int64_t* labels;
  CrossEntropy sizes;
  Gradient gradient;
  const std::int64_t* partial;
  Divisor<std::uint32_t> row_packs;
};

/// Every block finds the number of counted rows itself, from the labels or from the partial counts, so the gradient of
/// a typical batch is one kernel. Packs never cross rows.
template <int V, class T, class Gradient, bool Shared>
__global__ void label_gradient_kernel(
    const __grid_constant__ KernelArguments<GradientArguments<T, Gradient>, Shared> passed) {
  const auto& mine = passed.mine();
  begin_kernel();
  const CrossEntropy& sizes = mine.sizes;
  using S = Scalar<T>;
  S divide = 1;
  if (sizes.reduce == Reduce::mean) {
    divide = mine.partial == nullptr ? static_cast<S>(counted(mine.labels, sizes, threadIdx.x, blockDim.x))
                                     : static_cast<S>(reduce_block(mine.partial[threadIdx.x], Plus{}));
  }
  const std::int64_t packs = sizes.rows * sizes.classes / V;
  const bool narrow = packs < (std::int64_t{1} << 31);
  for (std::int64_t pack = global_thread(); pack < packs; pack += global_threads()) {
    auto values = mine.gradient.template input<V>(pack * V);
    const std::int64_t row =
        narrow ? mine.row_packs.quotient(static_cast<std::uint32_t>(pack)) : pack / (sizes.classes / V);
    const std::int64_t label = mine.labels[row], column = pack * V - row * sizes.classes;
    const S scale =
        (mine.grad_loss == nullptr ? S(1) : mine.grad_loss[sizes.reduce == Reduce::none ? row : 0]) / divide;
    const bool ignored = label == sizes.ignore_index, bad = label < 0 || label >= sizes.classes;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const S result = mine.gradient(scale, values.value[lane], column + lane == label);
      values.value[lane] = ignored ? S(0) : bad ? quiet_nan<S>() : result;
    }
    store<V>(mine.grad_in + pack * V, values);
  }
}

template <class T, class Gradient>
void label_gradient(Context& context, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                    const CrossEntropy& sizes, bool packable, const Gradient& gradient) {
  constexpr int V = pack_size<T>;
  packable = packable && aligned<V>(grad_in) && sizes.classes % V == 0;
  const std::int64_t row_packs = packable ? sizes.classes / V : sizes.classes;
  if (sizes.rows * row_packs == 0) return;
  const bool count_first = sizes.reduce == Reduce::mean && sizes.rows > 4096;
  const Scratch partial(context, count_first ? count_blocks * sizeof(std::int64_t) : 0);
  if (count_first)
    launch(context, Grid(count_blocks, count_blocks), count_kernel, labels, sizes, partial.as<std::int64_t>());
  const Grid grid(blocks_for(sizes.rows * row_packs, count_blocks), count_blocks);
  const GradientArguments<T, Gradient> arguments{
      grad_in, grad_loss, labels, sizes, gradient, partial.as<std::int64_t>(), Divisor<std::uint32_t>(row_packs)};
  if (packable)
    launch_shared(context, grid, arguments, [](auto shared) { return label_gradient_kernel<V, T, Gradient, shared>; });
  else
    launch_shared(context, grid, arguments, [](auto shared) { return label_gradient_kernel<1, T, Gradient, shared>; });
}

// ---- the slots ----

template <class T>
CrossEntropyGradient<T> gradient_of(const T* probabilities, const CrossEntropy& sizes) {
  const double uniform = sizes.label_smoothing / static_cast<double>(std::max<std::int64_t>(sizes.classes, 1));
  return {probabilities, static_cast<T>(1 - sizes.label_smoothing + uniform), static_cast<T>(uniform)};
}

}  // namespace

template <class T>
void cross_entropy_backward(Context& context, T* grad_logits, const Scalar<T>* grad_loss,
                            const Scalar<T>* probabilities, const std::int64_t* labels, const CrossEntropy& sizes) {
  label_gradient(context, grad_logits, grad_loss, labels, sizes, aligned<pack_size<T>>(probabilities),
                 gradient_of(probabilities, sizes));
}

template <class T>
void cross_entropy(Context& context, Scalar<T>* loss, Scalar<T>* probabilities, T* grad_logits, const T* logits,
                   const std::int64_t* labels, const CrossEntropy& sizes) {
  const auto smoothing = static_cast<Scalar<T>>(sizes.label_smoothing);
  CrossEntropyRow<T> row{probabilities, grad_logits, logits, smoothing, gradient_of(probabilities, sizes)};
  const auto run = [&](auto shape) {
    const bool together = sizes.reduce != Reduce::mean || blocks_of_cluster<decltype(shape)>(sizes) > 0;
    if (!together) row.grad_logits = nullptr;
    label_loss<decltype(shape)>(context, loss, labels, sizes, row);
    if (!together && grad_logits != nullptr)
      cross_entropy_backward<T>(context, grad_logits, nullptr, probabilities, labels, sizes);
  };
  // If 8 threads per row would fill a block, its instructions take longer than its waits: 3.3 microseconds for 128 rows
  // of ten, compared with 2.9 for 4 threads.
  if (sizes.classes <= 16 && sizes.rows > 64 && sizes.rows <= 256) return run(RowShape<4, 4>{});
  if (with_row(sizes.rows, sizes.classes, run)) return;
  const LongRows rows(sizes.rows, sizes.classes);
  const Scratch states(context, static_cast<std::size_t>(rows.count * rows.parts) * sizeof(Exponentials<Scalar<T>>));
  auto* const of_parts = states.as<Exponentials<Scalar<T>>>();
  find_exponentials(context, rows, logits, of_parts, probabilities, smoothing != 0);
  label_loss<RowShape<32, 0>>(context, loss, labels, sizes,
                              CrossEntropyLongRow<T>{logits, of_parts, rows.parts, smoothing});
  if (grad_logits != nullptr) cross_entropy_backward<T>(context, grad_logits, nullptr, probabilities, labels, sizes);
}

template <class T>
void nll(Context& context, Scalar<T>* loss, const T* log_probabilities, const std::int64_t* labels,
         const CrossEntropy& sizes) {
  label_loss<RowShape<1, 0>>(context, loss, labels, sizes, NllRow<T>{log_probabilities});
}

template <class T>
void nll_backward(Context& context, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                  const CrossEntropy& sizes) {
  label_gradient(context, grad_in, grad_loss, labels, sizes, true, NllGradient<Scalar<T>>{});
}

#define TERN_INSTANTIATE(T)                                                                                      \
  template void cross_entropy<T>(Context&, Scalar<T>*, Scalar<T>*, T*, const T*, const std::int64_t*,            \
                                 const CrossEntropy&);                                                           \
  template void cross_entropy_backward<T>(Context&, T*, const Scalar<T>*, const Scalar<T>*, const std::int64_t*, \
                                          const CrossEntropy&);                                                  \
  template void nll<T>(Context&, Scalar<T>*, const T*, const std::int64_t*, const CrossEntropy&);                \
  template void nll_backward<T>(Context&, T*, const Scalar<T>*, const std::int64_t*, const CrossEntropy&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
