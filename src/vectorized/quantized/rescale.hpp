// Rescaling in vectors, once per instruction set: include it after hwy/highway.h (see targets.hpp).

#if defined(TERN_VECTORIZED_RESCALE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_RESCALE_HPP
#undef TERN_VECTORIZED_RESCALE_HPP
#else
#define TERN_VECTORIZED_RESCALE_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "tern/kernels/quantized.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls step(i, count) for the elements of n, a vector of floats each time, or fewer.
template <class Step>
HWY_INLINE void for_lanes(std::int64_t n, const Step& step) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (std::int64_t i = 0; i < n; i += lanes) step(i, std::min(lanes, n - i));
}

/// The arithmetic of kernels/quantized.hpp.
struct Rescaling {
  using D = hn::ScalableTag<float>;
  using I = hn::RebindToSigned<D>;
  using U = hn::Rebind<std::uint8_t, D>;
  using V = hn::Vec<D>;
  static constexpr D d{};
  static constexpr I di{};
  static constexpr U du{};
  V low, high;
  hn::Vec<I> zero;

  HWY_INLINE explicit Rescaling(const kernels::Rescale& rescale)
      : low(hn::Set(d, rescale.low)), high(hn::Set(d, rescale.high)), zero(hn::Set(di, rescale.zero)) {}

  static HWY_INLINE hn::Vec<U> load(const std::uint8_t* in, std::int64_t count) {
    if (count >= static_cast<std::int64_t>(hn::Lanes(d))) return hn::LoadU(du, in);
    HWY_ALIGN std::uint8_t buffer[hn::MaxLanes(D{})] = {};
    std::memcpy(buffer, in, static_cast<std::size_t>(count));
    return hn::Load(du, buffer);
  }
  /// Stored numbers as int32.
  static HWY_INLINE hn::Vec<I> wide(const std::uint8_t* in, std::int64_t count) {
    return hn::PromoteTo(di, load(in, count));
  }
  /// float(stored - from) * scale.
  static HWY_INLINE V worth(const std::uint8_t* in, std::int64_t count, std::int32_t from, float scale) {
    return hn::Mul(hn::ConvertTo(d, hn::Sub(wide(in, count), hn::Set(di, from))), hn::Set(d, scale));
  }
  HWY_INLINE void store(V t, std::uint8_t* out, std::int64_t count) const {
    t = hn::IfThenElse(hn::Gt(t, low), t, low);
    t = hn::IfThenElse(hn::Lt(t, high), t, high);
    const auto stored = hn::DemoteTo(du, hn::Add(hn::NearestInt(t), zero));
    if (count >= static_cast<std::int64_t>(hn::Lanes(d))) {
      hn::StoreU(stored, du, out);
      return;
    }
    HWY_ALIGN std::uint8_t buffer[hn::MaxLanes(D{})];
    hn::Store(stored, du, buffer);
    std::memcpy(out, buffer, static_cast<std::size_t>(count));
  }
};

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
