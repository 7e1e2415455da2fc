#pragma once
// Include this before anything of Highway. It limits the instruction sets of each multi-target file to the baseline,
// AVX2 and AVX-512 (AVX3) on x86 and keeps Highway's default on other processors: further ones cost compile time and
// gain nothing here. Bits 0-7 are the relatives of AVX3, 11 and 12 are SSE4 and SSSE3; numbers, because not every
// release of Highway names them all. SVE's vectors cannot be array elements; those processors use NEON.
#define HWY_DISABLED_TARGETS (0x18FFLL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// The pattern of a multi-target file, name.cpp in this folder:
//
//   #include "vectorized/targets.hpp"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "vectorized/name.cpp"
//   #include <hwy/foreach_target.h>  // includes this file again, once per further target
//   #include <hwy/highway.h>
//   #include "vectorized/parallel.hpp"  // and all other includes: guarded, so they come in once
//
//   HWY_BEFORE_NAMESPACE();
//   namespace tern::vectorized::HWY_NAMESPACE {
//   namespace {  // equal names in two files must not meet
//   namespace hn = hwy::HWY_NAMESPACE;
//   template <class T>
//   void scale(T* out, const T* in, std::int64_t begin, std::int64_t end) { const hn::ScalableTag<T> d; ... }
//   void scale_float(float* out, ...) { scale(out, ...); }  // HWY_EXPORT takes no templates
//   void scale_double(double* out, ...) { scale(out, ...); }
//   }  // namespace
//   }  // namespace tern::vectorized::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE  // what exists once: dispatch, the work of teams, the table function
//   namespace tern::vectorized {
//   HWY_EXPORT(scale_float);
//   HWY_EXPORT(scale_double);
//   ... HWY_DYNAMIC_POINTER(scale_float) or HWY_DYNAMIC_DISPATCH(scale_float)(out, in, begin, end) ...
//   }  // namespace tern::vectorized
//   #endif
//
// A lambda inside the per-target part does not inherit the target attributes from HWY_BEFORE_NAMESPACE under every
// compiler: keep the work of teams in the HWY_ONCE part, or write HWY_ATTR on the lambda.
