// The windows of pooling along one axis of channels-last images; compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_POOLING_AXES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_POOLING_AXES_HPP
#undef TERN_VECTORIZED_POOLING_AXES_HPP
#else
#define TERN_VECTORIZED_POOLING_AXES_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "tern/kernels/pooling.hpp"
#include "vectorized/ranges.hpp"
#include "vectorized/windows.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {

using kernels::AdaptivePool2d;

/// Output o takes its inputs at(o, k) for k in [first(o), last(o)); input i belongs to the outputs [begin(i), end(i))
/// as their tap(o, i), or not at all (-1).
struct StridedAxis {
  std::int64_t in, out, K, stride, pad, dilation;
  bool count_pad;

  std::int64_t at(std::int64_t o, std::int64_t k) const { return o * stride - pad + k * dilation; }
  std::int64_t first(std::int64_t o) const { return kernel_rows(at(o, 0), K, dilation, in).first; }
  std::int64_t last(std::int64_t o) const { return kernel_rows(at(o, 0), K, dilation, in).last; }
  std::int64_t begin(std::int64_t i) const {
    const std::int64_t room = i + pad - (K - 1) * dilation;
    return room <= 0 ? 0 : quotient(room + stride - 1, stride);
  }
  std::int64_t end(std::int64_t i) const { return std::min(out, quotient(i + pad, stride) + 1); }
  std::int64_t tap(std::int64_t o, std::int64_t i) const {
    const std::int64_t distance = i - at(o, 0);  // not negative for one of its outputs
    const std::int64_t tap = quotient(distance, dilation);
    return tap * dilation == distance ? tap : -1;
  }
  /// The divisor of an average; dilation is 1.
  std::int64_t count(std::int64_t o) const { return count_pad ? std::min(K, in + pad - at(o, 0)) : last(o) - first(o); }
  /// The outputs all of whose inputs exist.
  Range whole() const {
    const std::int64_t begin = std::min(out, quotient(pad + stride - 1, stride));
    const std::int64_t room = in - 1 - (K - 1) * dilation + pad;  // of the last window's first input
    return {begin, room < 0 ? begin : std::clamp(quotient(room, stride) + 1, begin, out)};
  }
  /// The inputs all of whose outputs are among those.
  Range whole_inputs(const Range& outputs) const {
    const std::int64_t begin = (outputs.first - 1) * stride + 1 + (K - 1) * dilation - pad;
    const std::int64_t first = std::clamp<std::int64_t>(begin, 0, in);
    return {first, std::clamp(outputs.last * stride - pad, first, in)};
  }
};

struct AdaptiveAxis {
  std::int64_t in, out;

  std::int64_t at(std::int64_t o, std::int64_t k) const { return o * in / out + k; }
  std::int64_t first(std::int64_t /*o*/) const { return 0; }
  std::int64_t last(std::int64_t o) const { return ((o + 1) * in + out - 1) / out - o * in / out; }
  std::int64_t begin(std::int64_t i) const {
    std::int64_t o = i * out / in;
    while (o > 0 && at(o - 1, last(o - 1)) > i) --o;
    return o;
  }
  std::int64_t end(std::int64_t i) const {
    std::int64_t o = i * out / in + 1;
    while (o < out && at(o, 0) <= i) ++o;
    return o;
  }
  std::int64_t tap(std::int64_t o, std::int64_t i) const { return i - at(o, 0); }
  std::int64_t count(std::int64_t o) const { return last(o); }
  Range whole() const { return {}; }
  Range whole_inputs(const Range& /*outputs*/) const { return {}; }
  static constexpr std::int64_t stride = 1;
};

/// Calls visit(first, count) for all outputs: those whose windows are whole at once.
template <class Axis, class Visit>
HWY_INLINE void for_outputs(const Axis& axis, const Visit& visit) {
  const Range whole = axis.whole();
  for (std::int64_t o = 0; o < axis.out;) {
    const std::int64_t count = o == whole.first && whole.count() > 0 ? whole.count() : 1;
    visit(o, count);
    o += count;
  }
}

/// Calls visit(first, count) for all inputs. Those whose outputs are all among `outputs` come in one run for each
/// place in the stride: from one to the next, a stride further, its outputs are one further.
template <class Axis, class Visit>
HWY_INLINE void for_inputs(const Axis& axis, const Range& outputs, const Visit& visit) {
  const Range whole = axis.whole_inputs(outputs);
  for (std::int64_t i = 0; i < whole.first; ++i) visit(i, 1);
  for (std::int64_t i = whole.first; i < std::min(whole.first + axis.stride, whole.last); ++i)
    visit(i, quotient(whole.last - 1 - i, axis.stride) + 1);
  for (std::int64_t i = whole.last; i < axis.in; ++i) visit(i, 1);
}

template <class Axis>
struct Axes {
  Axis h, w;
  std::int64_t images, channels;
};

inline Axes<StridedAxis> axes_of(const Pool2d& p) {
  return {{p.H, p.OH, p.KH, p.stride_h, p.pad_h, p.dilation_h, p.count_include_pad},
          {p.W, p.OW, p.KW, p.stride_w, p.pad_w, p.dilation_w, p.count_include_pad},
          p.planes / p.channels,
          p.channels};
}
inline Axes<AdaptiveAxis> axes_of(const AdaptivePool2d& p) {
  return {{p.H, p.OH}, {p.W, p.OW}, p.planes / p.channels, p.channels};
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
