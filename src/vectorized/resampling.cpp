// Elements between others. Lanes are neighbours that lie side by side, or positions where nothing does.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/resampling.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/resampling.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::Resample;

/// Rows of `inner` elements: the sums for some positions among all outer * count.
HWY_NOINLINE void resample_rows(float* out, const float* in, const std::int64_t* index, const float* weight,
                                const Resample& p, Range some) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = some.first; row < some.last; ++row) {
    const float* const from = in + row / p.count * p.size * p.inner;
    const std::int64_t* const places = index + row % p.count * p.taps;
    float* const to = out + row * p.inner;
    if (weight == nullptr) {
      std::memcpy(to, from + places[0] * p.inner, static_cast<std::size_t>(p.inner) * sizeof(float));
      continue;
    }
    const float* const weights = weight + row % p.count * p.taps;
    for (std::int64_t i = 0; i < p.inner; i += lanes) {
      const std::int64_t left = p.inner - i;
      auto sum = hn::Mul(load_columns(d, from + places[0] * p.inner + i, left), hn::Set(d, weights[0]));
      for (std::int64_t k = 1; k < p.taps; ++k)
        sum = hn::Add(sum, hn::Mul(load_columns(d, from + places[k] * p.inner + i, left), hn::Set(d, weights[k])));
      store_columns(sum, d, to + i, left);
    }
  }
}

/// With inner = 1, for some of the outer rows. `index` and `weight` are [taps, count] here.
HWY_NOINLINE void resample_columns(float* out, const float* in, const std::int32_t* index, const float* weight,
                                   const Resample& p, Range some) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> integers;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = some.first; row < some.last; ++row) {
    const float* const from = in + row * p.size;
    float* const to = out + row * p.count;
    for (std::int64_t j = 0; j < p.count; j += lanes) {
      const std::int64_t left = p.count - j;
      const auto tap = [&](std::int64_t k) HWY_ATTR {
        return hn::GatherIndex(d, from, load_columns(integers, index + k * p.count + j, left));
      };
      auto sum = tap(0);
      if (weight != nullptr) sum = hn::Mul(sum, load_columns(d, weight + j, left));
      for (std::int64_t k = 1; k < p.taps; ++k)
        sum = hn::Add(sum, hn::Mul(tap(k), load_columns(d, weight + k * p.count + j, left)));
      store_columns(sum, d, to + j, left);
    }
  }
}

const ResampleKernels& resample_table() {
  static constexpr ResampleKernels kernels{.rows = resample_rows, .columns = resample_columns};
  return kernels;
}

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {
namespace {

HWY_EXPORT(resample_table);

void resample(Context& context, float* out, const float* in, const std::int64_t* index, const float* weight,
              const kernels::Resample& p) {
  const ResampleKernels& kernels = HWY_DYNAMIC_DISPATCH(resample_table)();
  const double taps = static_cast<double>(p.taps);
  if (p.inner > 1 || p.size >= std::int64_t{1} << 31) {
    parallel_for(context, p.outer * p.count, 5 + 0.3 * taps * static_cast<double>(p.inner),
                 [&](std::int64_t begin, std::int64_t end) {
                   kernels.rows(out, in, index, weight, p, {begin, end});
                 });
    return;
  }
  const std::int64_t all = p.count * p.taps;
  const Scratch places(context, static_cast<std::size_t>(all) * sizeof(std::int32_t));
  const Scratch weights(context, weight == nullptr ? 0 : static_cast<std::size_t>(all) * sizeof(float));
  for (std::int64_t j = 0; j < p.count; ++j)
    for (std::int64_t k = 0; k < p.taps; ++k) {
      places.as<std::int32_t>()[k * p.count + j] = static_cast<std::int32_t>(index[j * p.taps + k]);
      if (weight != nullptr) weights.as<float>()[k * p.count + j] = weight[j * p.taps + k];
    }
  parallel_for(context, p.outer, 5 + taps * static_cast<double>(p.count), [&](std::int64_t begin, std::int64_t end) {
    kernels.columns(out, in, places.as<std::int32_t>(), weight == nullptr ? nullptr : weights.as<float>(), p,
                    {begin, end});
  });
}

}  // namespace

kernels::Resampling resampling() { return {.resample = resample}; }

}  // namespace tern::vectorized
#endif
