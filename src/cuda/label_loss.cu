#include <cooperative_groups.h>

#include "cuda/branches.cuh"
#include "cuda/label_gradient.cuh"
#include "cuda/label_loss.cuh"
#include "cuda/rows.cuh"

namespace tern::cuda {
namespace {

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
      scale = 1 / static_cast<T>(counted(mine.labels, sizes, threadIdx.x, blockDim.x));
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

}  // namespace

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

#define TERN_INSTANTIATE(T)                                                                           \
  template void cross_entropy<T>(Context&, Scalar<T>*, Scalar<T>*, T*, const T*, const std::int64_t*, \
                                 const CrossEntropy&);                                                \
  template void nll<T>(Context&, Scalar<T>*, const T*, const std::int64_t*, const CrossEntropy&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
