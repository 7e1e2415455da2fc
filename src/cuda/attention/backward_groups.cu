#include "cuda/attention/attention.cuh"
#include "cuda/attention/backward_groups.cuh"

namespace tern::cuda::scaled_dot_product {

#ifdef TERN_CUDA_WARPGROUPS
/// Shapes as measured on an H200 (benchmarks/results/fused-h200.md).
template <class T>
void run_backward_groups(Context& context, const Backward<T>& pass, const Sizes& sizes) {
  if (single_faster(pass, sizes)) return run_backward_single(context, pass, sizes);
  const bool many = fill(sizes, sizes.keys, 64) + fill(sizes, sizes.queries, 64) >= 6;
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if constexpr (W <= 64)
      if (many) return GroupBackward < T, W, 64, 1, W == 32 ? 4 : 3, false > ::run(context, pass, sizes);
    constexpr int groups = W <= 96 ? 1 : 2;
    GroupBackward<T, W, 64, groups, 2 / groups, true>::run(context, pass, sizes);
  });
}
#else
template <class T>
void run_backward_groups(Context&, const Backward<T>&, const Sizes&) {
  throw Error("cuda: this build has no attention by warpgroups");
}
#endif
template void run_backward_groups(Context&, const Backward<BFloat16>&, const Sizes&);
template void run_backward_groups(Context&, const Backward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
