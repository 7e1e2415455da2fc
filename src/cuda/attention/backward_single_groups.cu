#include "cuda/attention/attention.cuh"
#include "cuda/attention/backward_single.cuh"

namespace tern::cuda::scaled_dot_product {

#ifdef TERN_CUDA_WARPGROUPS
namespace {

/// Calls body with the shape for these sizes: 64 keys of a warpgroup fill the card sooner, 128 load less.
template <class T, class Body>
void with_single(const Sizes& sizes, const Body& body) {
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if (sizes.keys <= 64)
      body(SingleShape<T, W, 1, 1>{});
    else if (W >= 96 || (sizes.keys <= 128 && sizes.heads <= card().multiprocessors))
      body(SingleShape<T, W, 1, 2>{});
    else if constexpr (W <= 64)
      sizes.keys <= 128 ? body(SingleShape<T, W, 2, 1>{}) : body(SingleShape<T, W, 2, 2>{});
  });
}

/// Parts of the loop over the queries.
template <class T, class Shape>
int parts_of(const Sizes& sizes, Shape) {
  constexpr int products = 5;
  return parts_for<T>(sizes.queries, products,
                      share_of(sizes, std::int64_t{sizes.heads} * sizes.queries * products, Shape::resident));
}

}  // namespace

template <class T>
bool single_faster(const Backward<T>& pass, const Sizes& sizes) {
  const bool all = pass.grad_query != nullptr && pass.grad_key != nullptr && pass.grad_value != nullptr;
  const int most_keys = std::max(sizes.width, sizes.values) <= 64 ? 256 : 128;
  if (!all || sizes.keys > most_keys) return false;
  // Products of 64 rows by 64: two warpgroups of a multiprocessor work at once. The way through shared memory counts as
  // one more.
  const std::int64_t multiprocessors = card().multiprocessors, steps = ceil_div(sizes.queries, 64);
  std::int64_t single = 0;
  with_single<T>(sizes, [&](auto shape) {
    const std::int64_t parts = parts_of<T>(sizes, shape);
    constexpr int join = 20;
    single =
        ceil_div(sizes.heads * parts * shape.groups, 2 * multiprocessors) * ceil_div(steps, parts) * 6 * shape.tiles +
        (parts > 1 ? join : 0);
  });
  const std::int64_t of_key = steps * 4, of_query = ceil_div(sizes.keys, 64) * 3;
  const std::int64_t all_blocks =
      sizes.heads * (ceil_div(sizes.keys, 128) * of_key + ceil_div(sizes.queries, 128) * of_query);
  return single < std::max({of_key, of_query, all_blocks / multiprocessors});
}

template <class T>
void run_backward_single(Context& context, const Backward<T>& pass, const Sizes& sizes) {
  with_single<T>(sizes, [&](auto shape) {
    Sizes own = sizes;
    own.key_parts = parts_of<T>(sizes, shape);
    launch_with_parts(context, pass, own, std::int64_t{sizes.heads} * own.key_parts, 0, shape.threads, shape.bytes,
                      [&](const Grid& grid, const auto&... of) {
                        launch(context, grid, backward_single<T, shape.width, shape.tiles, shape.groups>, of...);
                      });
  });
}
#else
template <class T>
bool single_faster(const Backward<T>&, const Sizes&) {
  return false;
}
template <class T>
void run_backward_single(Context&, const Backward<T>&, const Sizes&) {
  throw Error("cuda: this build has no attention by warpgroups");
}
#endif
template bool single_faster(const Backward<BFloat16>&, const Sizes&);
template bool single_faster(const Backward<Float16>&, const Sizes&);
template void run_backward_single(Context&, const Backward<BFloat16>&, const Sizes&);
template void run_backward_single(Context&, const Backward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
