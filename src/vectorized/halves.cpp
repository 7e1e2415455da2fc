// Conversions of float16, compiled for each instruction set: the compiler vectorizes them.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/halves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/halves.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

void to_float16(Float16* __restrict out, const float* __restrict in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i].bits = Float16(in[i]).bits;
}

void from_float16(float* __restrict out, const Float16* __restrict in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

HWY_EXPORT(to_float16);
HWY_EXPORT(from_float16);

void convert_float16(Float16* out, const float* in, std::int64_t n) { HWY_DYNAMIC_DISPATCH(to_float16)(out, in, n); }
void convert_float16(float* out, const Float16* in, std::int64_t n) { HWY_DYNAMIC_DISPATCH(from_float16)(out, in, n); }

}  // namespace tern::vectorized
#endif
