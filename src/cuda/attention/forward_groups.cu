#include "cuda/attention/attention.cuh"
#include "cuda/attention/forward_boxes.cuh"
#include "cuda/attention/forward_groups.cuh"

namespace tern::cuda::scaled_dot_product {

#ifdef TERN_CUDA_WARPGROUPS
bool has_groups() { return card().capability == 90; }

// Shapes as measured on an H200 (benchmarks/results/fused-h200.md).
namespace {

/// Whether blocks of 128 rows fill the card and have few rows too many.
bool suits_128(const Sizes& sizes) {
  return fill(sizes, sizes.queries, 128) >= 1.5 && 0.85 * static_cast<double>(ceil_div(sizes.queries, 128)) * 2 <=
                                                       static_cast<double>(ceil_div(sizes.queries, 64));
}

/// By the copy engine; false: threads copy, which is sooner done for few rows and for few keys.
template <int W, class T>
bool run_boxes(Context& context, const Forward<T>& pass, const Sizes& sizes) {
  if (!sizes.packs || sizes.keys <= 128) return false;
  const double few = fill(sizes, sizes.queries, 64);
  const bool long_loops =
      !sizes.causal && sizes.keys >= 1024 && fill(sizes, sizes.queries, 256) >= 2 &&
      static_cast<double>(ceil_div(sizes.queries, 256)) * 4 <= 1.05 * static_cast<double>(ceil_div(sizes.queries, 64));
  if constexpr (W == 128) {
    if (long_loops) return BoxForward<T, W, 64, 4, 1>::run(context, pass, sizes);
    if (suits_128(sizes)) return BoxForward<T, W, 128, 2, 1>::run(context, pass, sizes);
    return BoxForward<T, W, 64, 1, 2>::run(context, pass, sizes);
  }
  if constexpr (W == 96) {
    if (suits_128(sizes)) return BoxForward<T, W, 64, 2, 2>::run(context, pass, sizes);
    return few >= 1 && few <= 2 && sizes.keys >= 512 && BoxForward<T, W, 128, 2, 1>::run(context, pass, sizes);
  }
  if constexpr (W == 64)
    if (long_loops) return BoxForward<T, W, 128, 4, 1>::run(context, pass, sizes);
  if constexpr (W <= 64) return few >= 2 && BoxForward<T, W, 64, 1, 5>::run(context, pass, sizes);
}

}  // namespace

template <class T>
void run_forward_groups(Context& context, const Forward<T>& pass, const Sizes& sizes) {
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if (run_boxes<W>(context, pass, sizes)) return;
    if constexpr (W >= 96)
      suits_128(sizes) ? GroupForward<T, W, 128, 2, 1>::run(context, pass, sizes)
                       : GroupForward<T, W, 64, 1, W == 96 ? 3 : 2>::run(context, pass, sizes);
    else
      suits_128(sizes) ? GroupForward<T, W, 64, 2, 2>::run(context, pass, sizes)
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
