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

/// What the gradients of a row depend on, besides its elements.
template <class S>
struct RowTarget {
  std::int64_t label;
  S scale;
  bool ignored, bad;
};

/// Every block finds the number of counted rows itself, from the labels or from the partial counts, so the gradient of
/// a typical batch is one kernel. A pack is of one row or of two; V elements are no more than a row.
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
  const std::int64_t elements = sizes.rows * sizes.classes;
  const bool narrow = elements < (std::int64_t{1} << 31);
  const auto target_of = [&](std::int64_t row) {
    const std::int64_t label = mine.labels[row];
    const S of_loss = mine.grad_loss == nullptr ? S(1) : mine.grad_loss[sizes.reduce == Reduce::none ? row : 0];
    return RowTarget<S>{label, of_loss / divide, label == sizes.ignore_index, label < 0 || label >= sizes.classes};
  };
  const auto write = [&]<int W>(std::int64_t first, std::integral_constant<int, W>) {
    auto values = mine.gradient.template input<W>(first);
    const std::int64_t row =
        narrow ? mine.by_classes.quotient(static_cast<std::uint32_t>(first)) : first / sizes.classes;
    const std::int64_t column = first - row * sizes.classes;
    const RowTarget<S> target = target_of(row);
    RowTarget<S> next = target;
    if (W > 1 && column + W > sizes.classes) next = target_of(row + 1);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      const bool past = W > 1 && column + lane >= sizes.classes;
      const RowTarget<S>& of = past ? next : target;
      const std::int64_t at = past ? column + lane - sizes.classes : column + lane;
      const S result = mine.gradient(of.scale, values.value[lane], at == of.label);
      values.value[lane] = of.ignored ? S(0) : of.bad ? quiet_nan<S>() : result;
    }
    store<W>(mine.grad_in + first, values);
  };
  for (std::int64_t i = global_thread() * V; i < elements; i += global_threads() * V) {
    if (i + V <= elements)
      write(i, std::integral_constant<int, V>{});
    else
      for (std::int64_t rest = i; rest < elements; ++rest) write(rest, std::integral_constant<int, 1>{});
  }
}

template <class T, class Gradient>
void label_gradient(Context& context, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                    const CrossEntropy& sizes, bool packable, const Gradient& gradient) {
  constexpr int V = pack_of_registers<T>;
  packable = packable && aligned<V>(grad_in) && sizes.classes >= V;
  const std::int64_t packs = ceil_div(sizes.rows * sizes.classes, packable ? V : 1);
  if (packs == 0) return;
  const bool count_first = sizes.reduce == Reduce::mean && sizes.rows > 4096;
  const Scratch partial(context, count_first ? count_blocks * sizeof(std::int64_t) : 0);
  if (count_first)
    launch(context, Grid(count_blocks, count_blocks), count_kernel, labels, sizes, partial.as<std::int64_t>());
  const Grid grid(blocks_for(packs, count_blocks), count_blocks);
  const GradientArguments<T, Gradient> arguments{
      grad_in, grad_loss, labels, sizes, gradient, partial.as<std::int64_t>(), Divisor<std::uint32_t>(sizes.classes)};
  if (packable)
    launch_shared(context, grid, arguments, [](auto shared) { return label_gradient_kernel<V, T, Gradient, shared>; });
  else
    launch_shared(context, grid, arguments, [](auto shared) { return label_gradient_kernel<1, T, Gradient, shared>; });
}

}  // namespace

// ---- the slots ----

template <class T>
void cross_entropy_backward(Context& context, T* grad_logits, const Scalar<T>* grad_loss,
                            const Scalar<T>* probabilities, const std::int64_t* labels, const CrossEntropy& sizes) {
  label_gradient(context, grad_logits, grad_loss, labels, sizes, aligned<pack_of_registers<T>>(probabilities),
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
