#include "cuda/attention/attention.cuh"
#include "cuda/attention/backward_groups.cuh"

namespace tern::cuda::scaled_dot_product {

#ifdef TERN_CUDA_WARPGROUPS
template <class T>
void run_backward_groups(Context& context, const Backward<T>& pass, const Sizes& sizes) {
  if (single_faster(pass, sizes)) return run_backward_single(context, pass, sizes);
  with_width(std::max(sizes.width, sizes.values),
             [&](auto width) { GroupBackward<T, width, 64, 2, 1>::run(context, pass, sizes); });
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
