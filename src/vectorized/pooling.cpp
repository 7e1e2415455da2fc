// Pooling: the slots, and the gradients of planes, channels first.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/pooling.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/gradient.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/pooling_planes.hpp"
#include "vectorized/pooling_rows.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/sum_blocks.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::AdaptivePool2d;
using kernels::Pool2d;

constexpr double streamed = 0.3;  // rough cost of reading one element in nanoseconds

double window_cost(const Pool2d& p) { return 0.4 + 0.1 * static_cast<double>(p.KH * p.KW); }

/// Calls body(output row, Row) for all rows of all planes.
template <class T, class Body>
void for_rows(const Context& context, const T* in, const Pool2d& p, const Body& body) {
  const double cost = window_cost(p) * static_cast<double>(p.OW);
  parallel_for(context, p.planes * p.OH, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t origin = item % p.OH * p.stride_h - p.pad_h;
      body(item, Row<T>{in + item / p.OH * p.H * p.W, in + p.planes * p.H * p.W, origin,
                        kernel_rows(origin, p.KH, p.dilation_h, p.H)});
    }
  });
}

// ---- gradients -----------------------------------------------------------------------------------------------------

/// A plane with adjacent 2 x 2 windows: every element is written once, by its own window.
template <class D, class T>
HWY_INLINE void scatter_two_by_two(D d, T* top, T* bottom, const T* grad_out, const std::uint8_t* index) {
  const auto grad = hn::LoadU(d, grad_out), where = positions_of(d, index);
  const auto at = [&](T position) HWY_ATTR { return hn::IfThenElseZero(hn::Eq(where, hn::Set(d, position)), grad); };
  hn::StoreInterleaved2(at(0), at(1), d, top);
  hn::StoreInterleaved2(at(2), at(3), d, bottom);
}

template <class T>
HWY_NOINLINE void two_by_two_backward(T* grad_in, const T* grad_out, const std::uint8_t* index, const Pool2d& p) {
  const hn::CappedTag<T, 8> eight;
  const hn::CappedTag<T, 4> four;
  const auto lanes8 = static_cast<std::int64_t>(hn::Lanes(eight)), lanes4 = static_cast<std::int64_t>(hn::Lanes(four));
  for (std::int64_t oh = 0; oh < p.OH; ++oh) {
    T* top = grad_in + 2 * oh * p.W;
    T* bottom = top + p.W;
    std::int64_t ow = 0;
    for (; ow + lanes8 <= p.OW; ow += lanes8)
      scatter_two_by_two(eight, top + 2 * ow, bottom + 2 * ow, grad_out + oh * p.OW + ow, index + oh * p.OW + ow);
    for (; ow + lanes4 <= p.OW; ow += lanes4)
      scatter_two_by_two(four, top + 2 * ow, bottom + 2 * ow, grad_out + oh * p.OW + ow, index + oh * p.OW + ow);
    for (; ow < p.OW; ++ow) {
      T* places[]{top + 2 * ow, top + 2 * ow + 1, bottom + 2 * ow, bottom + 2 * ow + 1};
      for (int i = 0; i < 4; ++i) *places[i] = index[oh * p.OW + ow] == i ? grad_out[oh * p.OW + ow] : T(0);
    }
    std::fill(top + 2 * p.OW, top + p.W, T(0));
    std::fill(bottom + 2 * p.OW, bottom + p.W, T(0));
  }
  std::fill(grad_in + 2 * p.OH * p.W, grad_in + p.H * p.W, T(0));
}

template <class T>
void plane_backward(T* grad_in, const T* grad_out, const std::uint8_t* index, const Pool2d& p) {
  std::fill_n(grad_in, p.H * p.W, T(0));
  for (std::int64_t oh = 0; oh < p.OH; ++oh)
    for (std::int64_t ow = 0; ow < p.OW; ++ow) {
      const std::int64_t i = oh * p.OW + ow, kh = index[i] / p.KW, kw = index[i] - kh * p.KW;
      const std::int64_t h = oh * p.stride_h - p.pad_h + kh * p.dilation_h;
      const std::int64_t w = ow * p.stride_w - p.pad_w + kw * p.dilation_w;
      if (h >= 0 && h < p.H && w >= 0 && w < p.W) grad_in[h * p.W + w] += grad_out[i];  // otherwise all padding
    }
}

/// The part of a plane that one average covers, and the divisor of its sum.
struct Window {
  std::int64_t top, bottom, left, right, divisor;
};
Window window_of(const Pool2d& p, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * p.stride_h - p.pad_h, left = ow * p.stride_w - p.pad_w;
  const std::int64_t bottom = std::min(top + p.KH, p.H + p.pad_h), right = std::min(left + p.KW, p.W + p.pad_w);
  Window window{std::max<std::int64_t>(top, 0), std::min(bottom, p.H), std::max<std::int64_t>(left, 0),
                std::min(right, p.W), (bottom - top) * (right - left)};
  if (!p.count_include_pad) window.divisor = (window.bottom - window.top) * (window.right - window.left);
  return window;
}
Window window_of(const AdaptivePool2d& p, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * p.H / p.OH, bottom = ((oh + 1) * p.H + p.OH - 1) / p.OH;
  const std::int64_t left = ow * p.W / p.OW, right = ((ow + 1) * p.W + p.OW - 1) / p.OW;
  return {top, bottom, left, right, (bottom - top) * (right - left)};
}

template <class T>
HWY_NOINLINE T contiguous_sum(const T* in, std::int64_t n) {
  if (n > sum_block) {
    const std::int64_t half = (n / 2 + sum_block - 1) / sum_block * sum_block;
    return contiguous_sum(in, half) + contiguous_sum(in + half, n - half);
  }
  return map_sum(Same{}, n, in);
}

template <class T>
struct AddNumber {
  T number;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return hn::Add(value, hn::Set(d, number));
  }
};

template <class T, class Pool>
void average_backward(const Context& context, T* grad_in, const T* grad_out, const Pool& p, double nanoseconds) {
  constexpr std::int64_t wide = 8;  // rows of at least this length use vectors
  parallel_for(context, p.planes, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      T* to = grad_in + plane * p.H * p.W;
      std::fill_n(to, p.H * p.W, T(0));
      for (std::int64_t oh = 0; oh < p.OH; ++oh)
        for (std::int64_t ow = 0; ow < p.OW; ++ow) {
          const Window window = window_of(p, oh, ow);
          const T share = grad_out[(plane * p.OH + oh) * p.OW + ow] / static_cast<T>(window.divisor);
          const std::int64_t width = window.right - window.left;
          for (std::int64_t h = window.top; h < window.bottom; ++h) {
            T* row = to + h * p.W + window.left;
            if (width >= wide)
              map(AddNumber<T>{share}, row, width, row);
            else
              for (std::int64_t w = 0; w < width; ++w) row[w] += share;
          }
        }
    }
  });
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void max_pool2d(Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& p) {
  if (p.channels > 1) return row_pooling<T>().max(context, out, index, in, p);
  const hn::CappedTag<T, 8> eight;
  const hn::CappedTag<T, 4> four;
  if (is_side_by_side(p) && p.OW >= static_cast<std::int64_t>(hn::Lanes(four)))
    return parallel_for(context, p.planes * p.OH, window_cost(p) * static_cast<double>(p.OW),
                        [&](std::int64_t begin, std::int64_t end) {
                          if (p.OW >= static_cast<std::int64_t>(hn::Lanes(eight)))
                            max_rows_two_by_two(eight, out, index, in, {begin, end}, p);
                          else
                            max_rows_two_by_two(four, out, index, in, {begin, end}, p);
                        });
  const Interior inside(p);
  for_rows(context, in, p, [&](std::int64_t item, const Row<T>& row) {
    if (index == nullptr)
      pool_row(MaxRow<T, LargestState>{out + item * p.OW, nullptr}, row, inside, p);
    else
      pool_row(MaxRow<T, MaxState>{out + item * p.OW, index + item * p.OW}, row, inside, p);
  });
}

template <class T>
void max_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index, const Pool2d& p) {
  if (p.channels > 1) return row_pooling<T>().max_backward(context, grad_in, grad_out, index, p);
  const bool side_by_side = is_side_by_side(p);
  const double cost = streamed * static_cast<double>(p.H * p.W) + static_cast<double>(p.OH * p.OW);
  parallel_for(context, p.planes, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t at = plane * p.H * p.W, from = plane * p.OH * p.OW;
      if (side_by_side)
        two_by_two_backward(grad_in + at, grad_out + from, index + from, p);
      else
        plane_backward(grad_in + at, grad_out + from, index + from, p);
    }
  });
}

template <class T>
void avg_pool2d(Context& context, T* out, const T* in, const Pool2d& p) {
  if (p.channels > 1) return row_pooling<T>().average(context, out, in, p);
  const Interior inside(p);
  for_rows(context, in, p, [&](std::int64_t item, const Row<T>& row) {
    const std::int64_t covered =
        p.count_include_pad ? std::min(p.KH, p.H + p.pad_h - row.origin_h) : row.rows.last - row.rows.first;
    pool_row(AverageRow<T>{out + item * p.OW, covered}, row, inside, p);
  });
}

template <class T>
void avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const Pool2d& p) {
  if (p.channels > 1) return row_pooling<T>().average_backward(context, grad_in, grad_out, p);
  const double windows = static_cast<double>(p.OH * p.OW) * (5 + streamed * static_cast<double>(p.KH * p.KW));
  average_backward(context, grad_in, grad_out, p, streamed * static_cast<double>(p.H * p.W) + windows);
}

template <class T>
void adaptive_avg_pool2d(Context& context, T* out, const T* in, const AdaptivePool2d& p) {
  if (p.channels > 1 && p.OH * p.OW == 1 && p.H * p.W > 0) {  // a mean, which a team shares
    static const kernels::Reduction<T> reduction = vectorized::reduction<T>();
    return reduction.mean(context, out, in, {p.planes / p.channels, p.H * p.W, p.channels});
  }
  if (p.channels > 1) return row_pooling<T>().adaptive(context, out, in, p);
  const double cost =
      10 + streamed * static_cast<double>(p.H * p.W) / static_cast<double>(std::max<std::int64_t>(1, p.OH));
  parallel_for(context, p.planes * p.OH, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item)
      for (std::int64_t ow = 0; ow < p.OW; ++ow) {
        const Window window = window_of(p, item % p.OH, ow);
        const T* from = in + (item / p.OH * p.H + window.top) * p.W + window.left;
        const std::int64_t rows = window.bottom - window.top, width = window.right - window.left;
        T sum = 0;
        if (width == p.W)
          sum = contiguous_sum(from, rows * width);
        else
          for (std::int64_t h = 0; h < rows; ++h) sum += contiguous_sum(from + h * p.W, width);
        out[item * p.OW + ow] = sum / static_cast<T>(window.divisor);
      }
  });
}

template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& p) {
  if (p.channels > 1) return row_pooling<T>().adaptive_backward(context, grad_in, grad_out, p);
  average_backward(context, grad_in, grad_out, p,
                   2 * streamed * static_cast<double>(p.H * p.W) + 5 * static_cast<double>(p.OH * p.OW));
}

template <class T>
kernels::Pooling<T> table() {
  return {.max_pool2d = max_pool2d<T>,
          .max_pool2d_backward = kernels::gradient<max_pool2d_backward<T>>(),
          .avg_pool2d = avg_pool2d<T>,
          .avg_pool2d_backward = kernels::gradient<avg_pool2d_backward<T>>(),
          .adaptive_avg_pool2d = adaptive_avg_pool2d<T>,
          .adaptive_avg_pool2d_backward = kernels::gradient<adaptive_avg_pool2d_backward<T>>()};
}

}  // namespace

kernels::Pooling<float> pooling_float() { return table<float>(); }
kernels::Pooling<double> pooling_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(pooling, pooling)

}  // namespace tern::vectorized
#endif
