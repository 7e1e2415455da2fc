#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/rows.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> masked(D d, hn::Vec<D> value, hn::Vec<D> saved) {
  return hn::IfThenZeroElse(hn::Le(saved, hn::Zero(d)), value);
}

/// One position; the last vector is filled up with zeros.
template <bool masks, class T>
HWY_INLINE void copy_position(T* out, const T* in, const T* saved, std::int64_t channels) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    auto value = hn::LoadU(d, in + c);
    if constexpr (masks) value = masked(d, value, hn::LoadU(d, saved + c));
    hn::StoreU(value, d, out + c);
  }
  if (c < channels) {
    auto value = load_first(d, in + c, channels - c);
    if constexpr (masks) value = masked(d, value, load_first(d, saved + c, channels - c));
    hn::StoreU(value, d, out + c);
  }
}

template <class T>
void copy(T* out, std::int64_t out_pixel, const T* in, const T* saved, std::int64_t in_pixel, std::int64_t positions,
          std::int64_t channels) {
  for (std::int64_t p = 0; p < positions; ++p) {
    if (saved == nullptr)
      copy_position<false>(out + p * out_pixel, in + p * in_pixel, saved, channels);
    else
      copy_position<true>(out + p * out_pixel, in + p * in_pixel, saved + p * in_pixel, channels);
  }
}

template <class T>
void copy_panels(T* out, std::int64_t width, std::int64_t panel, const T* in, const T* saved, std::int64_t in_pixel,
                 std::int64_t positions, std::int64_t channels) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t strip = 16;  // positions at a time, so that both sides see runs of some length
  for (std::int64_t first = 0; first < positions; first += strip)
    for (std::int64_t c = 0; c < channels; c += width) {
      const std::int64_t count = std::min(width, channels - c);
      for (std::int64_t p = first; p < std::min(first + strip, positions); ++p) {
        T* const to = out + c / width * panel + p * width;
        const T* const from = in + p * in_pixel + c;
        if (saved == nullptr)
          copy_position<false>(to, from, saved, count);
        else
          copy_position<true>(to, from, saved + p * in_pixel + c, count);
        for (std::int64_t i = (count + lanes - 1) / lanes * lanes; i < width; i += lanes)
          hn::StoreU(hn::Zero(d), d, to + i);
      }
    }
}

template <class T>
HWY_INLINE void copy_run(T* out, const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, in + i), d, out + i);
  if (i < n) store_first(load_first(d, in + i, n - i), d, out + i, n - i);
}
template <class T>
HWY_INLINE void add_run(T* out, const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::LoadU(d, in + i)), d, out + i);
  if (i < n) store_first(hn::Add(load_first(d, out + i, n - i), load_first(d, in + i, n - i)), d, out + i, n - i);
}

/// Calls inside(offset in the image, offset in the patch, elements) for the runs of a patch that lie in the image, and
/// outside(offset in the patch, elements) for the others, in the order of the patch.
template <class T, class Inside, class Outside>
HWY_INLINE void for_runs(const Gather<T>& g, std::int64_t first_row, std::int64_t last_row, std::int64_t position,
                         const Inside& inside, const Outside& outside) {
  const std::int64_t C = g.image.channels, line = g.KW * C;
  const std::int64_t top = position / g.OW * g.stride_h - g.pad_h, left = position % g.OW * g.stride_w - g.pad_w;
  const bool whole = C == g.image.pixel && g.dilation_w == 1;  // a kernel row is one run
  for (std::int64_t row = first_row; row < last_row; ++row) {
    const std::int64_t h = top + row * g.dilation_h, to = (row - first_row) * line;
    if (h < 0 || h >= g.image.H) {
      outside(to, line);
    } else if (whole) {
      const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, g.KW);
      const std::int64_t end = std::clamp<std::int64_t>(g.image.W - left, begin, g.KW);
      if (begin > 0) outside(to, begin * C);
      inside((h * g.image.W + left + begin) * C, to + begin * C, (end - begin) * C);
      if (end < g.KW) outside(to + end * C, (g.KW - end) * C);
    } else {
      for (std::int64_t column = 0; column < g.KW; ++column) {
        const std::int64_t w = left + column * g.dilation_w;
        if (w < 0 || w >= g.image.W)
          outside(to + column * C, C);
        else
          inside((h * g.image.W + w) * g.image.pixel, to + column * C, C);
      }
    }
  }
}

template <class T>
void gather(T* out, std::int64_t out_row, const Gather<T>& patches, std::int64_t first_row, std::int64_t last_row,
            std::int64_t first, std::int64_t count) {
  for (std::int64_t p = 0; p < count; ++p, out += out_row)
    for_runs(
        patches, first_row, last_row, first + p,
        [&](std::int64_t from, std::int64_t to, std::int64_t n)
            HWY_ATTR { copy_run(out + to, patches.image.data + from, n); },
        [&](std::int64_t to, std::int64_t n) HWY_ATTR { std::fill_n(out + to, n, T{0}); });
}

template <class T>
void scatter(T* image, const T* in, std::int64_t in_row, const Gather<T>& patches, std::int64_t first_row,
             std::int64_t last_row, std::int64_t first, std::int64_t count) {
  for (std::int64_t p = 0; p < count; ++p, in += in_row)
    for_runs(
        patches, first_row, last_row, first + p,
        [&](std::int64_t to, std::int64_t from, std::int64_t n) HWY_ATTR { add_run(image + to, in + from, n); },
        [](std::int64_t, std::int64_t) {});
}

template <class T>
const RowKernels<T>& kernels() {
  static constexpr RowKernels<T> table{
      .copy = copy<T>, .copy_panels = copy_panels<T>, .gather = gather<T>, .scatter = scatter<T>};
  return table;
}

const RowKernels<float>& kernels_float() { return kernels<float>(); }
const RowKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

HWY_EXPORT(kernels_float);
HWY_EXPORT(kernels_double);

template <>
const RowKernels<float>& row_kernels<float>() {
  static const RowKernels<float>& kernels = HWY_DYNAMIC_DISPATCH(kernels_float)();
  return kernels;
}
template <>
const RowKernels<double>& row_kernels<double>() {
  static const RowKernels<double>& kernels = HWY_DYNAMIC_DISPATCH(kernels_double)();
  return kernels;
}

}  // namespace tern::vectorized
#endif
