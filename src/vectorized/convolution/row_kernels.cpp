#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/row_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/convolution/row_kernels.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using vectorized::HWY_NAMESPACE::has_masked_memory;
using vectorized::HWY_NAMESPACE::load_first;
using vectorized::HWY_NAMESPACE::store_first;

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> masked(D d, hn::Vec<D> value, hn::Vec<D> mask) {
  return hn::IfThenZeroElse(hn::Le(mask, hn::Zero(d)), value);
}

/// One position; the last vector is padded with zeros.
template <bool masks, class T>
HWY_INLINE void copy_position(T* out, const T* in, const T* mask, std::int64_t channels) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    auto value = hn::LoadU(d, in + c);
    if constexpr (masks) value = masked(d, value, hn::LoadU(d, mask + c));
    hn::StoreU(value, d, out + c);
  }
  if (c < channels) {
    auto value = load_first(d, in + c, channels - c);
    if constexpr (masks) value = masked(d, value, load_first(d, mask + c, channels - c));
    hn::StoreU(value, d, out + c);
  }
}

template <class T>
void copy(Pitched<T> out, Pitched<const T> in, const T* mask, std::int64_t positions, std::int64_t channels) {
  for (std::int64_t p = 0; p < positions; ++p) {
    if (mask == nullptr)
      copy_position<false>(out.row(p), in.row(p), mask, channels);
    else
      copy_position<true>(out.row(p), in.row(p), mask + p * in.pitch, channels);
  }
}

template <class T>
void copy_panels(Pitched<T> panels, std::int64_t width, Pitched<const T> in, const T* mask, std::int64_t positions,
                 std::int64_t channels) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t strip = 16;  // positions at a time, so that both sides have runs of some length
  for (std::int64_t first = 0; first < positions; first += strip)
    for (std::int64_t c = 0; c < channels; c += width) {
      const std::int64_t count = std::min(width, channels - c);
      for (std::int64_t p = first; p < std::min(first + strip, positions); ++p) {
        T* const to = panels.row(c / width) + p * width;
        const T* const from = in.row(p) + c;
        if (mask == nullptr)
          copy_position<false>(to, from, mask, count);
        else
          copy_position<true>(to, from, mask + p * in.pitch + c, count);
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

/// Whether a row of the kernel is one run of the image.
bool lines_are_runs(const Problem& problem) { return problem.C == problem.x_pitch && problem.dilation_w == 1; }

/// Calls inside(offset in the image, offset in the patch, elements) for the runs of a patch that are in the image, and
/// outside(offset in the patch, elements) for the others, in patch order.
template <class Inside, class Outside>
HWY_INLINE void for_runs(const Problem& problem, Range rows, std::int64_t position, const Inside& inside,
                         const Outside& outside) {
  const std::int64_t C = problem.C, line = problem.KW * C;
  const std::int64_t top = position / problem.OW * problem.stride_h - problem.pad_h,
                     left = position % problem.OW * problem.stride_w - problem.pad_w;
  const bool whole = lines_are_runs(problem);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t h = top + row * problem.dilation_h, to = (row - rows.first) * line;
    if (h < 0 || h >= problem.H) {
      outside(to, line);
    } else if (whole) {
      const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, problem.KW);
      const std::int64_t end = std::clamp<std::int64_t>(problem.W - left, begin, problem.KW);
      if (begin > 0) outside(to, begin * C);
      inside((h * problem.W + left + begin) * C, to + begin * C, (end - begin) * C);
      if (end < problem.KW) outside(to + end * C, (problem.KW - end) * C);
    } else {
      for (std::int64_t column = 0; column < problem.KW; ++column) {
        const std::int64_t w = left + column * problem.dilation_w;
        if (w < 0 || w >= problem.W)
          outside(to + column * C, C);
        else
          inside((h * problem.W + w) * problem.x_pitch, to + column * C, C);
      }
    }
  }
}

/// Output positions from the first on, in its row, whose patches are inside the image: their number.
std::int64_t positions_inside(const Problem& problem, Range rows, Range positions) {
  const std::int64_t row = positions.first / problem.OW, column = positions.first % problem.OW;
  const std::int64_t top = row * problem.stride_h - problem.pad_h, left = column * problem.stride_w - problem.pad_w;
  const std::int64_t room = problem.W - problem.KW - left;
  if (top + rows.first * problem.dilation_h < 0 || top + (rows.last - 1) * problem.dilation_h >= problem.H) return 0;
  return left < 0 || room < 0 ? 0 : std::min({positions.count(), problem.OW - column, room / problem.stride_w + 1});
}

/// `count` patches that lie inside the image, next to each other.
template <class T>
void gather_inside(Pitched<T> out, const T* image, const Problem& problem, Range rows, std::int64_t position,
                   std::int64_t count) {
  const std::int64_t line = problem.KW * problem.C, step = problem.stride_w * problem.C;
  const std::int64_t down = problem.dilation_h * problem.W * problem.C;
  const std::int64_t top = position / problem.OW * problem.stride_h - problem.pad_h + rows.first * problem.dilation_h;
  const std::int64_t left = position % problem.OW * problem.stride_w - problem.pad_w;
  const T* from = image + (top * problem.W + left) * problem.C;
  if constexpr (has_masked_memory && sizeof(T) >= 4) {  // short lines: one vector
    const hn::ScalableTag<T> d;
    if (line <= static_cast<std::int64_t>(hn::Lanes(d))) {
      const auto some = hn::FirstN(d, static_cast<std::size_t>(line));
      for (std::int64_t p = 0; p < count; ++p, from += step)
        for (std::int64_t row = 0; row < rows.count(); ++row)
          hn::BlendedStore(hn::MaskedLoad(some, d, from + row * down), some, d, out.row(p) + row * line);
      return;
    }
  }
  for (std::int64_t p = 0; p < count; ++p, from += step)
    for (std::int64_t row = 0; row < rows.count(); ++row) copy_run(out.row(p) + row * line, from + row * down, line);
}

template <class T>
void gather(Pitched<T> out, const T* image, const Problem& problem, Range rows, Range positions) {
  const bool whole = lines_are_runs(problem);
  for (std::int64_t p = positions.first; p < positions.last;) {
    const std::int64_t some = whole ? positions_inside(problem, rows, {p, positions.last}) : 0;
    T* const patch = out.row(p - positions.first);
    if (some > 0) {
      gather_inside<T>({patch, out.pitch}, image, problem, rows, p, some);
      p += some;
      continue;
    }
    for_runs(
        problem, rows, p,
        [&](std::int64_t from, std::int64_t to, std::int64_t n) HWY_ATTR { copy_run(patch + to, image + from, n); },
        [&](std::int64_t to, std::int64_t n) HWY_ATTR { std::fill_n(patch + to, n, T{0}); });
    ++p;
  }
}

template <class T>
void scatter(T* image, Pitched<const T> in, const Problem& problem, Range rows, Range positions) {
  for (std::int64_t p = positions.first; p < positions.last; ++p) {
    const T* const patch = in.row(p - positions.first);
    for_runs(
        problem, rows, p,
        [&](std::int64_t to, std::int64_t from, std::int64_t n) HWY_ATTR { add_run(image + to, patch + from, n); },
        [](std::int64_t, std::int64_t) {});
  }
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
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

TERN_DISPATCHED(row_kernels, kernels)

}  // namespace tern::vectorized::convolution
#endif
