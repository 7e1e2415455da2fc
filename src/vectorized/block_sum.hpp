// Long sums of rows, and what normalisations do with elements. Included once per instruction set.

#if defined(TERN_VECTORIZED_BLOCK_SUM) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_BLOCK_SUM
#undef TERN_VECTORIZED_BLOCK_SUM
#else
#define TERN_VECTORIZED_BLOCK_SUM
#endif

#include <algorithm>

#include "vectorized/simd.hpp"
#include "vectorized/sum_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {

/// map_sum in blocks, which are added in double: the length costs no accuracy.
template <class Op, class T, class... In>
HWY_INLINE double block_sum(const Op& op, std::int64_t n, const T* first, const In*... in) {
  double total = 0;
  for (std::int64_t i = 0; i < n; i += sum_block)
    total += map_sum(op, std::min(sum_block, n - i), first + i, (in + i)...);
  return total;
}

/// Whether the rounding of the means affects the variances around them.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> far_means(D d, V mean, V variance) {
  return hn::Gt(hn::Mul(mean, mean), hn::Mul(hn::Set(d, static_cast<hn::TFromD<D>>(1 << 17)), variance));
}

template <class V>
struct DeviationFrom {
  V mean;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V x) const {
    return hn::Sub(x, mean);
  }
};
template <class V>
struct SquareFrom {
  V mean;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V x) const {
    const V deviation = hn::Sub(x, mean);
    return hn::Mul(deviation, deviation);
  }
};
/// In this order, inverse * weight may be out of T's range.
template <class V>
struct Normalize {
  V mean, inverse, weight, bias;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V x) const {
    return hn::Add(hn::Mul(hn::Mul(hn::Sub(x, mean), inverse), weight), bias);
  }
};

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
