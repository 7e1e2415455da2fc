#include "cuda/attention/attention.cuh"
#include "cuda/attention/forward.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

/// As in forward.cu, measured on an H200. Large tiles leave more rows empty: at 257 queries smaller ones are faster.
template <class T, class Body>
void with_shape(const Sizes& sizes, const Body& body) {
  const auto padded = [&](int rows) { return static_cast<double>(ceil_div(sizes.queries, rows) * rows); };
  const bool large = fill(sizes, sizes.queries, 128) >= 1.5 && 0.85 * padded(128) <= padded(64);
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    using Large = HalfTile<T, 2>;
    using Small = HalfTile<T, 1>;
    if constexpr (W == 128) {
      if (card().shared_per_block < 128 * 1024)
        body(ForwardShape<Small, W, 64, 4, 2, 1>{});
      else if (large)
        sizes.causal ? body(ForwardShape<Large, W, 32, 4, 2, 2>{}) : body(ForwardShape<Large, W, 64, 4, 2, 2>{});
      else
        body(ForwardShape<Small, W, 64, 4, 2, 2>{});
    } else if constexpr (W == 96) {
      large ? body(ForwardShape<Large, W, 64, 4, 2, 2>{}) : body(ForwardShape<Small, W, 64, 4, 3, 2>{});
    } else {
      large ? body(ForwardShape<Large, W, 64, 4, 3, 2>{}) : body(ForwardShape<Small, W, 64, 4, 4, 2>{});
    }
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
void run_forward(Context& context, const Forward<T>& pass, const Sizes& sizes) {
  with_shape<T>(sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}
template void run_forward(Context&, const Forward<BFloat16>&, const Sizes&);
template void run_forward(Context&, const Forward<Float16>&, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
