#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/im2col_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/convolution/im2col_kernels.hpp"
#include "vectorized/dispatched.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// A run of positions in one output row: `from` is its offset in the image for kernel element (0, 0).
struct Run {
  std::int64_t from, to, length;
};

/// Copies the runs with vectors of D, past their ends: the next run, or the next row, overwrites the rest.
template <class D, class T>
HWY_INLINE void copy_runs(D d, T* out, const T* in, const Run* runs, std::int64_t count) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = 0; r < count; ++r) {
    const Run run = runs[r];
    for (std::int64_t i = 0; i < run.length; i += step)
      hn::StoreU(hn::LoadU(d, in + run.from + i), d, out + run.to + i);
  }
}

template <class T>
void copy_exactly(T* out, const T* in, const Run* runs, std::int64_t count) {
  for (std::int64_t r = 0; r < count; ++r) std::copy_n(in + runs[r].from, runs[r].length, out + runs[r].to);
}

template <class T>
void cut(Pitched<T> rows_out, const T* image, const T* end, const Problem& problem, Range rows, Range positions) {
  const std::int64_t height = problem.H + 2 * problem.pad_h, width = problem.W + 2 * problem.pad_w;
  Run runs[most_positions];
  std::int64_t run_count = 0, longest = 0;
  for (std::int64_t done = 0; done < positions.count(); ++run_count) {
    const std::int64_t position = positions.first + done, oh = position / problem.OW, ow = position % problem.OW;
    const std::int64_t length = std::min(problem.OW - ow, positions.count() - done);
    runs[run_count] = {oh * problem.stride_h * width + ow * problem.stride_w, done, length};
    longest = std::max(longest, length);
    done += length;
  }
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, std::max<std::size_t>(1, HWY_MAX_BYTES / sizeof(T) / 2)> half;
  const bool halves = longest <= static_cast<std::int64_t>(hn::Lanes(half));
  // The most that a row of patches reads, from its first element: runs are in image order.
  const std::int64_t most =
      runs[run_count - 1].from + runs[run_count - 1].length + static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T));
  std::int64_t j = rows.first % problem.KW, i = rows.first / problem.KW % problem.KH;
  const T* plane = image + rows.first / (problem.KW * problem.KH) * height * width;
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    T* const out = rows_out.row(row);
    const T* in = plane + i * problem.dilation_h * width + j * problem.dilation_w;
    if (problem.stride_w != 1) {
      for (std::int64_t r = 0; r < run_count; ++r) {
        const T* from = in + runs[r].from;
        T* to = out + runs[r].to;
        for (std::int64_t x = 0; x < runs[r].length; ++x) to[x] = from[x * problem.stride_w];
      }
    } else if (end - in < most) {
      copy_exactly(out, in, runs, run_count);
    } else if (halves) {
      copy_runs(half, out, in, runs, run_count);
    } else {
      copy_runs(d, out, in, runs, run_count);
    }
    if (++j == problem.KW) {
      j = 0;
      if (++i == problem.KH) {
        i = 0;
        plane += height * width;
      }
    }
  }
}

/// Adds patch row (i, j) to the plane, output row by output row.
template <class T>
void paste_row(T* plane, const T* patches, std::int64_t i, std::int64_t j, const Problem& problem, Range output_rows) {
  // Columns ow whose pixel shift + ow * stride is inside the plane.
  const std::int64_t shift = j * problem.dilation_w - problem.pad_w;
  const std::int64_t begin = shift >= 0 ? 0 : (-shift + problem.stride_w - 1) / problem.stride_w;
  const std::int64_t end =
      shift >= problem.W ? 0 : std::min(problem.OW, (problem.W - shift + problem.stride_w - 1) / problem.stride_w);
  for (std::int64_t oh = output_rows.first; oh < output_rows.last; ++oh, patches += problem.OW) {
    const std::int64_t ih = oh * problem.stride_h - problem.pad_h + i * problem.dilation_h;
    if (ih < 0 || ih >= problem.H) continue;
    T* const to = plane + ih * problem.W + shift;
    for (std::int64_t ow = begin; ow < end; ++ow) to[ow * problem.stride_w] += patches[ow];
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#define TERN_PASTE_COLUMNS 1
inline constexpr std::int64_t most_kernel_columns = 16;

/// One vector of columns, from `column`, of all rows of the plane that the patches touch: every pixel collects its
/// terms in a register. Masked loads skip what is beyond the ends of the patches' rows.
template <class T>
void paste_columns(T* plane, Pitched<const T> patches, const Problem& problem, Range output_rows, std::int64_t column) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto first = [&](std::int64_t n) HWY_ATTR {
    return hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, lanes)));
  };
  const auto inside = first(problem.W - column);
  decltype(hn::FirstN(d, 0)) masks[most_kernel_columns];
  std::int64_t from[most_kernel_columns];
  for (std::int64_t j = 0; j < problem.KW; ++j) {
    const std::int64_t ow = column + problem.pad_w - j * problem.dilation_w;  // of lane 0
    masks[j] = hn::AndNot(first(-ow), first(problem.OW - ow));
    from[j] = j * patches.pitch + ow;
  }
  const auto [first_oh, last_oh] = output_rows;
  const std::int64_t begin = std::max<std::int64_t>(0, first_oh * problem.stride_h - problem.pad_h);
  const std::int64_t end =
      std::min(problem.H, (last_oh - 1) * problem.stride_h - problem.pad_h + (problem.KH - 1) * problem.dilation_h + 1);
  for (std::int64_t ih = begin; ih < end; ++ih) {
    T* const to = plane + ih * problem.W + column;
    auto sum = hn::MaskedLoad(inside, d, to);
    for (std::int64_t i = 0; i < problem.KH; ++i) {
      const std::int64_t above = ih + problem.pad_h - i * problem.dilation_h;
      const std::int64_t oh = problem.stride_h == 1 ? above : above / problem.stride_h;
      if (oh * problem.stride_h != above || oh < first_oh || oh >= last_oh) continue;
      const T* row = patches.row(i * problem.KW) + (oh - first_oh) * problem.OW;
      for (std::int64_t j = 0; j < problem.KW; ++j) sum = hn::Add(sum, hn::MaskedLoad(masks[j], d, row + from[j]));
    }
    hn::BlendedStore(sum, inside, d, to);
  }
}
#endif

template <class T>
void paste(T* plane, Pitched<const T> patches, const Problem& problem, Range output_rows) {
#ifdef TERN_PASTE_COLUMNS
  if (problem.stride_w == 1 && problem.KW <= most_kernel_columns) {
    const hn::ScalableTag<T> d;
    for (std::int64_t column = 0; column < problem.W; column += static_cast<std::int64_t>(hn::Lanes(d)))
      paste_columns(plane, patches, problem, output_rows, column);
    return;
  }
#endif
  for (std::int64_t i = 0; i < problem.KH; ++i)
    for (std::int64_t j = 0; j < problem.KW; ++j)
      paste_row(plane, patches.row(i * problem.KW + j), i, j, problem, output_rows);
}
#undef TERN_PASTE_COLUMNS

template <class T>
const Im2colKernels<T>& kernels() {
  static constexpr Im2colKernels<T> table{.cut = cut<T>, .paste = paste<T>};
  return table;
}

const Im2colKernels<float>& kernels_float() { return kernels<float>(); }
const Im2colKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

TERN_DISPATCHED(im2col_kernels, kernels)

}  // namespace tern::vectorized::convolution
#endif
