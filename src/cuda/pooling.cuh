#pragma once
// What pooling shares between the layouts: windows over a plane, with their usual sizes known to the compiler.

#include "cuda/reduce.cuh"
#include "tern/kernels/pooling.hpp"

namespace tern::cuda {

using kernels::AdaptivePool2d;
using kernels::Pool2d;

/// The sizes of one plane as the card counts them. `K` above 0: square windows of K elements at a stride of S without
/// dilation, known to the compiler; 0: as the sizes say.
template <int K, int S>
struct Windows {
  int H, W, OH, OW, kernel_h, kernel_w, step_h, step_w, pad_h, pad_w, dilation_h, dilation_w;
  bool count_include_pad;
  Divisor<std::uint32_t> by_step_h, by_step_w;

  explicit Windows(const Pool2d& p)
      : H(static_cast<int>(p.H)),
        W(static_cast<int>(p.W)),
        OH(static_cast<int>(p.OH)),
        OW(static_cast<int>(p.OW)),
        kernel_h(static_cast<int>(p.KH)),
        kernel_w(static_cast<int>(p.KW)),
        step_h(static_cast<int>(p.stride_h)),
        step_w(static_cast<int>(p.stride_w)),
        pad_h(static_cast<int>(p.pad_h)),
        pad_w(static_cast<int>(p.pad_w)),
        dilation_h(static_cast<int>(p.dilation_h)),
        dilation_w(static_cast<int>(p.dilation_w)),
        count_include_pad(p.count_include_pad),
        by_step_h(p.stride_h),
        by_step_w(p.stride_w) {}
  __device__ int KH() const { return K > 0 ? K : kernel_h; }
  __device__ int KW() const { return K > 0 ? K : kernel_w; }
  __device__ int stride_h() const { return K > 0 ? S : step_h; }
  __device__ int stride_w() const { return K > 0 ? S : step_w; }

  /// use(oh, ow, kh, kw) for each window that holds the input element (h, w), in row order, and its place there.
  template <class Use>
  __device__ void each_window(int h, int w, Use use) const {
    reach(h + pad_h, kernel_h, step_h, by_step_h, dilation_h, OH, [&](int oh, int kh) {
      reach(w + pad_w, kernel_w, step_w, by_step_w, dilation_w, OW, [&](int ow, int kw) { use(oh, ow, kh, kw); });
    });
  }

  /// What an average divides by in the window of output (oh, ow).
  template <class T>
  __device__ T divisor(int oh, int ow) const {
    const int top = oh * stride_h() - pad_h, left = ow * stride_w() - pad_w;
    if (count_include_pad)
      return static_cast<T>(static_cast<std::int64_t>(min(top + KH(), H + pad_h) - top) *
                            (min(left + KW(), W + pad_w) - left));
    return static_cast<T>(static_cast<std::int64_t>(min(top + KH(), H) - max(top, 0)) *
                          (min(left + KW(), W) - max(left, 0)));
  }

 private:
  /// The same along one dimension; `at` has the padding added.
  template <class Use>
  static __device__ void reach(int at, int kernel, int step, const Divisor<std::uint32_t>& by_step, int dilation,
                               int outputs, Use use) {
    if constexpr (K > 0) {
      constexpr int most = (K + S - 1) / S;
#pragma unroll
      for (int i = most - 1; i >= 0; --i) {
        const int output = at / S - i, position = at - output * S;
        if (output >= 0 && output < outputs && position < K) use(output, position);
      }
    } else {
      const int before = at - (kernel - 1) * dilation;
      const int first =
          before <= 0 ? 0 : static_cast<int>(by_step.quotient(static_cast<std::uint32_t>(before + step - 1)));
      const int last = min(static_cast<int>(by_step.quotient(static_cast<std::uint32_t>(at))), outputs - 1);
      for (int output = first; output <= last; ++output) {
        const int distance = at - output * step, position = dilation == 1 ? distance : distance / dilation;
        if (position * dilation == distance) use(output, position);
      }
    }
  }
};

/// Calls `function(windows)` with window and stride as constants where they are usual ones.
template <class Function>
void with_windows(const Pool2d& sizes, Function function) {
  const auto are = [&](std::int64_t kernel, std::int64_t stride) {
    return sizes.KH == kernel && sizes.KW == kernel && sizes.stride_h == stride && sizes.stride_w == stride &&
           sizes.dilation_h == 1 && sizes.dilation_w == 1;
  };
  if (are(2, 2))
    function(Windows<2, 2>(sizes));
  else if (are(3, 2))
    function(Windows<3, 2>(sizes));
  else if (are(3, 1))
    function(Windows<3, 1>(sizes));
  else if (are(5, 3))
    function(Windows<5, 3>(sizes));
  else
    function(Windows<0, 0>(sizes));
}

/// One dimension of an adaptive pool from `inputs` to `outputs` elements.
template <class Index>
struct Spread {
  Divisor<Index> inputs, outputs;
  struct Range {
    int first, end;
    __device__ int size() const { return end - first; }
  };
  Spread(std::int64_t from, std::int64_t to) : inputs(from), outputs(to) {}
  __device__ Range inputs_of(int output) const { return share(output, inputs, outputs); }
  /// The outputs that an input belongs to.
  __device__ Range outputs_of(int input) const { return share(input, outputs, inputs); }

 private:
  static __device__ Range share(int i, const Divisor<Index>& from, const Divisor<Index>& to) {
    const Index begin = static_cast<Index>(i) * from.value();
    return {static_cast<int>(to.quotient(begin)), static_cast<int>(to.quotient(begin + from.value() + to.value() - 1))};
  }
};

/// The largest number that an adaptive pool divides.
inline std::int64_t largest_spread(const AdaptivePool2d& sizes) {
  return std::max((sizes.H + 1) * (sizes.OH + 1), (sizes.W + 1) * (sizes.OW + 1));
}

/// The same slots for arrays [planes / channels, H, W, channels] (pooling_channels_last.cu).
namespace channels_last {

template <class T>
void max_pool2d(Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& sizes);
template <class T>
void max_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index,
                         const Pool2d& sizes);
template <class T>
void avg_pool2d(Context& context, T* out, const T* in, const Pool2d& sizes);
template <class T>
void avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const Pool2d& sizes);
template <class T>
void adaptive_avg_pool2d(Context& context, T* out, const T* in, const AdaptivePool2d& sizes);
template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& sizes);

}  // namespace channels_last
}  // namespace tern::cuda
