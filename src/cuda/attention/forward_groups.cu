#include "cuda/attention/attention.cuh"
#include "cuda/attention/forward_groups.cuh"

namespace tern::cuda::scaled_dot_product {

#ifdef TERN_CUDA_WARPGROUPS
bool has_groups() { return card().capability == 90; }

/// Measured on an H200 (benchmarks/results/fused-h200.md).
template <class T>
void run_forward_groups(Context& context, const Forward<T>& pass, const Sizes& sizes) {
  const auto padded = [&](int rows) { return static_cast<double>(ceil_div(sizes.queries, rows) * rows); };
  const bool large = fill(sizes, sizes.queries, 128) >= 1.5 && 0.85 * padded(128) <= padded(64);
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if constexpr (W >= 96)
      large ? GroupForward<T, W, 128, 2, 1>::run(context, pass, sizes)
            : GroupForward<T, W, 64, 1, W == 96 ? 3 : 2>::run(context, pass, sizes);
    else
      large ? GroupForward<T, W, 64, 2, 2>::run(context, pass, sizes)
            : GroupForward<T, W, 64, 1, 4>::run(context, pass, sizes);
  });
}
#else
bool has_groups() { return false; }

template <class T>
void run_forward_groups(Context&, const Forward<T>&, const Sizes&) {
  throw Error("cuda: this build has no attention by warpgroups");
}
#endif
template void run_forward_groups(Context&, const Forward<BFloat16>&, const Sizes&);
template void run_forward_groups(Context&, const Forward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
