#include <cstdlib>

#include "cuda/attention/attention.cuh"
#include "cuda/attention/backward_single.cuh"

namespace tern::cuda::scaled_dot_product {

#ifdef TERN_CUDA_WARPGROUPS
namespace {

/// The keys of the largest block.
int most_rows(const Sizes& sizes) { return std::max(sizes.width, sizes.values) <= 64 ? 256 : 128; }

/// Calls body with the shape for these sizes.
template <class T, class Body>
void with_single(const Sizes& sizes, const Body& body) {
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if (sizes.keys <= 64)
      body(std::integral_constant<int, W>{}, std::integral_constant<int, 1>{}, std::integral_constant<int, 1>{});
    else if constexpr (W >= 96)
      body(std::integral_constant<int, W>{}, std::integral_constant<int, 1>{}, std::integral_constant<int, 2>{});
    else if (sizes.keys <= 128)
      body(std::integral_constant<int, W>{}, std::integral_constant<int, 2>{}, std::integral_constant<int, 1>{});
    else
      body(std::integral_constant<int, W>{}, std::integral_constant<int, 2>{}, std::integral_constant<int, 2>{});
  });
}

}  // namespace

template <class T>
bool runs_single(const Backward<T>& pass, const Sizes& sizes) {
  const char* const most = std::getenv("TERN_CHUNKS");
  return pass.grad_query != nullptr && pass.grad_key != nullptr && pass.grad_value != nullptr &&
         ceil_div(sizes.keys, most_rows(sizes)) <= (most == nullptr ? 2 : std::atoi(most));
}

template <class T>
void run_backward_single(Context& context, const Backward<T>& pass, const Sizes& sizes) {
  with_single<T>(sizes, [&](auto width, auto tiles, auto groups) {
    using Shape = SingleShape<T, width, tiles, groups>;
    Sizes own = sizes;
    own.query_parts = static_cast<int>(ceil_div(sizes.keys, Shape::rows));
    const std::int64_t all_blocks = std::int64_t{sizes.heads} * own.query_parts;
    own.key_parts =
        parts_for(sizes.queries, sizes.queries, share_of(sizes, all_blocks * sizes.queries, Shape::resident));
    const std::int64_t of_head = std::int64_t{sizes.queries} * sizes.width * own.query_parts * 4;
    const char* const slice = std::getenv("TERN_SLICE");
    const std::int64_t most = std::int64_t{slice == nullptr ? 64 : std::atoi(slice)} << 20;
    const std::int64_t heads =
        own.query_parts == 1 ? sizes.heads : std::clamp<std::int64_t>(most / of_head, 1, sizes.heads);
    for (std::int64_t first = 0; first < sizes.heads; first += heads) {
      own.first_head = static_cast<int>(first);
      own.heads = static_cast<int>(std::min(heads, sizes.heads - first));
      Backward<T> of_heads = pass;
      of_heads.log_sum += first * sizes.queries, of_heads.inner += first * sizes.queries;
      launch_with_parts(context, of_heads, own, std::int64_t{own.heads} * own.query_parts * own.key_parts, 0,
                        Shape::threads, Shape::bytes, backward_single<T, width, tiles, groups>);
    }
  });
}
#else
template <class T>
bool runs_single(const Backward<T>&, const Sizes&) {
  return false;
}
template <class T>
void run_backward_single(Context&, const Backward<T>&, const Sizes&) {
  throw Error("cuda: this build has no attention by warpgroups");
}
#endif
template bool runs_single(const Backward<BFloat16>&, const Sizes&);
template bool runs_single(const Backward<Float16>&, const Sizes&);
template void run_backward_single(Context&, const Backward<BFloat16>&, const Sizes&);
template void run_backward_single(Context&, const Backward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
