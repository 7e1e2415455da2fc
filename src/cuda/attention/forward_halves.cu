#include "cuda/attention/attention.cuh"
#include "cuda/attention/forward.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

/// As in forward.cu.
template <class T, class Body>
void with_shape(const Sizes& sizes, const Body& body) {
  const bool large = fill(sizes, sizes.queries, 128) >= 1.5;
  with_half_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if constexpr (W > 64)
      large ? body(ForwardShape<HalfTile<T, 2>, W, 64, 4, 2>{}) : body(ForwardShape<HalfTile<T, 1>, W, 64, 4, 3>{});
    else
      large ? body(ForwardShape<HalfTile<T, 2>, W, 64, 4, 3>{}) : body(ForwardShape<HalfTile<T, 1>, W, 64, 4, 4>{});
  });
}

}  // namespace

template <class T>
std::size_t forward_shared(const Context&, const Sizes& sizes) {
  std::size_t bytes = 0;
  with_shape<T>(sizes, [&](auto shape) { bytes = shape.bytes; });
  return bytes;
}
template std::size_t forward_shared<BFloat16>(const Context&, const Sizes&);
template std::size_t forward_shared<Float16>(const Context&, const Sizes&);

template <class T>
void run_forward(const Context& context, const Forward<T>& pass, const Sizes& sizes) {
  with_shape<T>(sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}
template void run_forward(const Context&, const Forward<BFloat16>&, const Sizes&);
template void run_forward(const Context&, const Forward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
