#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/finish.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/activation_functions.hpp"
#include "vectorized/clip.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/finish.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::Activation;

template <class Function>
struct OfSum {
  Function function;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value, V added) const {
    return function(d, hn::Add(value, added));
  }
};

template <class Function, class T>
void apply(const Function& function, T* y, const T* added, std::int64_t n) {
  if (added == nullptr)
    map(function, y, n, y);
  else
    map(OfSum<Function>{function}, y, n, y, added);
}

template <class T>
void run(T* y, const T* added, std::int64_t n, Activation activation) {
  switch (activation) {
    case Activation::relu:
    case Activation::relu6:
      return apply(Clip<T>{top_of<T>(activation)}, y, added, n);
    case Activation::sigmoid:
      return apply(Sigmoid{}, y, added, n);
    case Activation::tanh:
      return apply(Tanh{}, y, added, n);
    case Activation::gelu:
      return apply(Gelu{}, y, added, n);
    case Activation::silu:
      return apply(Silu{}, y, added, n);
    case Activation::hardswish:
      return apply(Hardswish{}, y, added, n);
    case Activation::none:
      if (added != nullptr) apply(Same{}, y, added, n);
  }
}

template <class T>
const FinishKernels<T>& kernels() {
  static constexpr FinishKernels<T> table{.run = run<T>};
  return table;
}

const FinishKernels<float>& kernels_float() { return kernels<float>(); }
const FinishKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(finish_kernels, kernels)

}  // namespace tern::vectorized
#endif
