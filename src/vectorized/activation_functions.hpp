// The smooth activations, as operations of vectors; compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_ACTIVATION_FUNCTIONS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_ACTIVATION_FUNCTIONS_HPP
#undef TERN_VECTORIZED_ACTIVATION_FUNCTIONS_HPP
#else
#define TERN_VECTORIZED_ACTIVATION_FUNCTIONS_HPP
#endif

#include "vectorized/math.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Sigmoid {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return HWY_NAMESPACE::sigmoid(d, x);
  }
};

struct Tanh {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return HWY_NAMESPACE::tanh(d, x);
  }
};

struct Gelu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    V density;
    return hn::Mul(x, normal_distribution(d, x, density));
  }
};

struct Silu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, HWY_NAMESPACE::sigmoid(d, x));
  }
};

struct Hardswish {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), six = hn::Set(d, hn::TFromD<D>(6));
    const V raised = hn::Add(x, hn::Set(d, hn::TFromD<D>(3)));
    const V above = hn::IfThenElse(hn::Lt(raised, zero), zero, raised);  // keeps NaN
    return hn::Mul(x, hn::Div(hn::IfThenElse(hn::Gt(above, six), six, above), six));
  }
};

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
