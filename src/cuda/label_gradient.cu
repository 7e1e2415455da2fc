// The gradients of losses whose targets are labels.

#include "cuda/branches.cuh"
#include "cuda/label_gradient.cuh"
#include "cuda/label_loss.cuh"

namespace tern::cuda {
namespace {

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
  Divisor<std::uint32_t> by_classes;
};

/// What the gradients of a row depend on, besides its elements. The label is -1 if it is none, and then `scale` NaN; -2
/// if the row does not count.
template <class Column, class S>
struct RowTarget {
  Column label;
  S scale;
};

/// Every block finds the number of counted rows itself, from the labels or from the partial counts, so the gradient of
/// a typical batch is one kernel. A pack is of one row or of two; V elements are no more than a row.
template <int V, class Index, class T, class Gradient, bool Shared>
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
  const bool each = sizes.reduce == Reduce::none && mine.grad_loss != nullptr;
  const S common = (mine.grad_loss == nullptr || each ? S(1) : mine.grad_loss[0]) / divide;
  using Column = std::conditional_t<sizeof(Index) == 4, int, std::int64_t>;
  using Target = RowTarget<Column, S>;
  const auto classes = static_cast<Column>(sizes.classes);
  const auto target_of = [&](std::int64_t row) {
    const std::int64_t label = mine.labels[row];
    if (label == sizes.ignore_index) return Target{-2, 0};
    if (label < 0 || label >= sizes.classes) return Target{-1, quiet_nan<S>()};
    return Target{static_cast<Column>(label), each ? mine.grad_loss[row] : common};
  };
  const auto write = [&]<int W>(Index first, std::integral_constant<int, W>) {
    auto values = mine.gradient.template input<W>(static_cast<std::int64_t>(first));
    const Index row = sizeof(Index) == 4 ? static_cast<Index>(mine.by_classes.quotient(static_cast<unsigned>(first)))
                                         : first / static_cast<Index>(classes);
    const auto column = static_cast<Column>(first - row * static_cast<Index>(classes));
    const Target target = target_of(static_cast<std::int64_t>(row));
    Target next = target;
    if (W > 1 && column + W > classes) next = target_of(static_cast<std::int64_t>(row) + 1);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      const bool past = W > 1 && column + lane >= classes;
      const Target& of = past ? next : target;
      const S result = mine.gradient(of.scale, values.value[lane], column + lane - (past ? classes : 0) == of.label);
      values.value[lane] = of.label == -2 ? S(0) : of.label == -1 ? of.scale : result;
    }
    store<W>(mine.grad_in + first, values);
  };
  const auto elements = static_cast<Index>(sizes.rows * sizes.classes);
  const auto step = static_cast<Index>(global_threads() * V);
  for (Index i = static_cast<Index>(global_thread() * V); i < elements; i += step) {
    if (i + V <= elements)
      write(i, std::integral_constant<int, V>{});
    else
      for (Index rest = i; rest < elements; ++rest) write(rest, std::integral_constant<int, 1>{});
  }
}

template <class T, class Gradient>
void label_gradient(Context& context, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                    const CrossEntropy& sizes, bool packable, const Gradient& gradient) {
  constexpr int V = pack_size<T>;
  packable = packable && aligned<V>(grad_in) && sizes.classes >= V;
  const std::int64_t elements = sizes.rows * sizes.classes;
  if (elements == 0) return;
  const bool count_first = sizes.reduce == Reduce::mean && sizes.rows > 4096;
  const Scratch partial(context, count_first ? count_blocks * sizeof(std::int64_t) : 0);
  if (count_first)
    launch(context, Grid(count_blocks, count_blocks), count_kernel, labels, sizes, partial.as<std::int64_t>());
  const Grid grid(blocks_for(ceil_div(elements, packable ? V : 1), count_blocks), count_blocks);
  const GradientArguments<T, Gradient> arguments{
      grad_in, grad_loss, labels, sizes, gradient, partial.as<std::int64_t>(), Divisor<std::uint32_t>(sizes.classes)};
  const auto run = [&]<int W, class Index>(std::integral_constant<int, W>, Index) {
    launch_shared(context, grid, arguments,
                  [](auto shared) { return label_gradient_kernel<W, Index, T, Gradient, shared>; });
  };
  constexpr std::int64_t narrow = std::int64_t{1} << 30;  // and a step behind it fits 32 bits
  constexpr std::integral_constant<int, V> packs;
  constexpr std::integral_constant<int, 1> single;
  if (elements < narrow)
    packable ? run(packs, std::uint32_t{}) : run(single, std::uint32_t{});
  else
    packable ? run(packs, std::uint64_t{}) : run(single, std::uint64_t{});
}

}  // namespace

// ---- the slots ----

template <class T>
void cross_entropy_backward(Context& context, T* grad_logits, const Scalar<T>* grad_loss,
                            const Scalar<T>* probabilities, const std::int64_t* labels, const CrossEntropy& sizes) {
  label_gradient(context, grad_logits, grad_loss, labels, sizes, aligned<pack_size<T>>(probabilities),
                 gradient_of(probabilities, sizes));
}

template <class T>
void nll_backward(Context& context, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                  const CrossEntropy& sizes) {
  label_gradient(context, grad_in, grad_loss, labels, sizes, true, NllGradient<Scalar<T>>{});
}

#define TERN_INSTANTIATE(T)                                                                                      \
  template void cross_entropy_backward<T>(Context&, T*, const Scalar<T>*, const Scalar<T>*, const std::int64_t*, \
                                          const CrossEntropy&);                                                  \
  template void nll_backward<T>(Context&, T*, const Scalar<T>*, const std::int64_t*, const CrossEntropy&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
