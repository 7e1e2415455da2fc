#include <algorithm>

#include "cuda/attention/attention.cuh"
#include "cuda/attention/streamed.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

/// Calls body with the lanes that share a key, the queries of a block, and whether rows are packets.
template <class T, class Body>
void with_lanes(const Sizes& sizes, const Body& body) {
  constexpr int most = static_cast<int>(most_width * sizeof(T) / 16);
  const auto with_queries = [&](auto lanes) {
    if (sizes.queries == 1)
      body(lanes, std::integral_constant<int, 1>{}, std::true_type{});
    else
      body(lanes, std::integral_constant<int, 4>{}, std::true_type{});
  };
  const int packets = static_cast<int>(ceil_div(std::max(sizes.width, sizes.values), Packet<T>::count));
  if (!sizes.packs)
    body(std::integral_constant<int, most>{}, std::integral_constant<int, 4>{}, std::false_type{});
  else if (packets <= most / 4)
    with_queries(std::integral_constant<int, most / 4>{});
  else if (packets <= most / 2)
    with_queries(std::integral_constant<int, most / 2>{});
  else
    with_queries(std::integral_constant<int, most>{});
}

/// Blocks that share a head's keys: enough to fill the card, each with some keys for every group of lanes. A second
/// kernel takes as long as four times as many.
int parts_of(const Sizes& sizes, int lanes, int queries) {
  constexpr std::int64_t blocks_per_multiprocessor = 4, most = 32;
  const std::int64_t blocks = sizes.heads * ceil_div(sizes.queries, queries);
  const std::int64_t wanted = blocks_per_multiprocessor * card().multiprocessors / blocks;
  const std::int64_t steps = ceil_div(sizes.keys, stream_threads / lanes * stream_keys);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, std::min(most, steps));
  return steps - ceil_div(steps, parts) >= 4 ? static_cast<int>(parts) : 1;
}

}  // namespace

template <class T>
void run_streamed(Context& context, const Forward<T>& pass, const Sizes& sizes) {
  with_lanes<T>(sizes, [&](auto lanes, auto queries, auto packs) {
    const ForwardParts<T> parts(context, sizes, parts_of(sizes, lanes, queries));
    const float shift = weight_shift<float>(sizes);
    const std::int64_t blocks = sizes.heads * ceil_div(sizes.queries, queries) * parts.parts().count;
    launch(context, Grid(static_cast<unsigned>(blocks), stream_threads), streamed_kernel<T, lanes, queries, packs>,
           pass, sizes, shift, parts.parts());
    parts.join(context, pass, sizes, shift);
  });
}

template <class T>
void run_streamed_backward(Context& context, const StreamedBackward<T>& pass, const Sizes& sizes) {
  with_lanes<T>(sizes, [&](auto lanes, auto queries, auto packs) {
    const int parts = parts_of(sizes, lanes, queries);
    const std::int64_t elements = std::int64_t{sizes.heads} * sizes.queries * sizes.width;
    const bool joins = parts > 1 && pass.grad_query != nullptr;
    const Scratch scratch(context, joins ? static_cast<std::size_t>(elements * parts) * sizeof(float) : 0);
    const RowParts partial{parts, nullptr, scratch.template as<float>()};
    launch(context, Grid(static_cast<unsigned>(std::int64_t{sizes.heads} * parts), stream_threads),
           streamed_backward_kernel<T, lanes, queries, packs>, pass, sizes, partial);
    if (joins)
      launch(context, Grid(static_cast<unsigned>(ceil_div(elements, stream_threads)), stream_threads),
             join_stream_gradients<T>, pass.grad_query, sizes, partial);
  });
}

template void run_streamed(Context&, const Forward<float>&, const Sizes&);
template void run_streamed(Context&, const Forward<BFloat16>&, const Sizes&);
template void run_streamed(Context&, const Forward<Float16>&, const Sizes&);
template void run_streamed_backward(Context&, const StreamedBackward<float>&, const Sizes&);
template void run_streamed_backward(Context&, const StreamedBackward<BFloat16>&, const Sizes&);
template void run_streamed_backward(Context&, const StreamedBackward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
