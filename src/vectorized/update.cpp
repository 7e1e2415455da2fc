// Optimisers: one parallel region over the elements of all parameters.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/update.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "vectorized/dispatched.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::Adam;
using kernels::Parameters;
using kernels::Sgd;

constexpr double sgd_cost = 0.4, adam_cost = 1;  // rough costs of one element in nanoseconds

/// Calls body(parameter, first, n) for a part of each parameter per thread: the part whose gradient it has computed,
/// more often than not.
template <class T, class Body>
void for_elements(const Context& context, const Parameters<T>& parameters, double nanoseconds, const Body& body) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < parameters.count; ++i) total += parameters.size[i];
  parallel(useful_threads(context, nanoseconds * static_cast<double>(total)), [&](const Team& team) {
    for (std::int64_t i = 0; i < parameters.count; ++i) {
      const std::int64_t first = team.begin(parameters.size[i], 16), last = team.end(parameters.size[i], 16);
      if (first < last) body(i, first, last - first);
    }
  });
}

/// Calls step(offset, load, store) for every vector of [0, n): load and store handle whole vectors or the rest of the
/// array.
template <class T, class Step>
HWY_INLINE void for_vectors(std::int64_t n, const Step& step) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step.template at<true>(d, i, lanes);
  if (i < n) step.template at<false>(d, i, n - i);
}

template <bool whole, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load(D d, const T* from, std::int64_t count) {
  if constexpr (whole) return hn::LoadU(d, from);
  return load_first(d, from, count);
}
template <bool whole, class D, class T = hn::TFromD<D>>
HWY_INLINE void store(hn::Vec<D> value, D d, T* to, std::int64_t count) {
  if constexpr (whole)
    hn::StoreU(value, d, to);
  else
    store_first(value, d, to, count);
}

/// p -= learning_rate (g + weight_decay p).
template <class T>
struct PlainSgd {
  T* value;
  const T* gradient;
  T learning_rate, weight_decay;
  template <bool whole, class D>
  HWY_INLINE void at(D d, std::int64_t i, std::int64_t count) const {
    const auto p = load<whole>(d, value + i, count);
    const auto g = hn::Add(load<whole>(d, gradient + i, count), hn::Mul(hn::Set(d, weight_decay), p));
    store<whole>(hn::Sub(p, hn::Mul(hn::Set(d, learning_rate), g)), d, value + i, count);
  }
};

template <class T, bool first_step, bool nesterov>
struct MomentumSgd {
  T *value, *velocity;
  const T* gradient;
  T learning_rate, weight_decay, momentum, undamped;
  template <bool whole, class D>
  HWY_INLINE void at(D d, std::int64_t i, std::int64_t count) const {
    const auto p = load<whole>(d, value + i, count);
    const auto mu = hn::Set(d, momentum);
    auto g = hn::Add(load<whole>(d, gradient + i, count), hn::Mul(hn::Set(d, weight_decay), p));
    auto v = g;
    if constexpr (!first_step)
      v = hn::Add(hn::Mul(mu, load<whole>(d, velocity + i, count)), hn::Mul(hn::Set(d, undamped), g));
    store<whole>(v, d, velocity + i, count);
    g = nesterov ? hn::Add(g, hn::Mul(mu, v)) : v;
    store<whole>(hn::Sub(p, hn::Mul(hn::Set(d, learning_rate), g)), d, value + i, count);
  }
};

template <class Step, class T>
HWY_NOINLINE void run(const Step& step, std::int64_t n) {
  for_vectors<T>(n, step);
}

/// The numbers of one step, the same for all elements.
template <class T>
struct AdamNumbers {
  T rate, beta1, beta2, rest1, rest2;  ///< rest = 1 - beta
  T scale1, scale2;                    ///< 1 / (1 - beta^t)
  T epsilon, decay;                    ///< g += decay p or, decoupled, p -= decay p

  AdamNumbers(T learning_rate, std::int64_t step, const Adam& options)
      : rate(learning_rate),
        beta1(static_cast<T>(options.beta1)),
        beta2(static_cast<T>(options.beta2)),
        rest1(static_cast<T>(1 - options.beta1)),
        rest2(static_cast<T>(1 - options.beta2)),
        scale1(static_cast<T>(1 / (1 - std::pow(options.beta1, static_cast<double>(step))))),
        scale2(static_cast<T>(1 / (1 - std::pow(options.beta2, static_cast<double>(step))))),
        epsilon(static_cast<T>(options.epsilon)),
        decay(static_cast<T>(options.decoupled ? learning_rate * options.weight_decay : options.weight_decay)) {}
};

template <class T, bool decoupled>
struct AdamStep {
  T *value, *first, *second;
  const T* gradient;
  const AdamNumbers<T>& numbers;
  template <bool whole, class D>
  HWY_INLINE void at(D d, std::int64_t i, std::int64_t count) const {
    auto p = load<whole>(d, value + i, count);
    auto g = load<whole>(d, gradient + i, count);
    if constexpr (decoupled)
      p = hn::Sub(p, hn::Mul(hn::Set(d, numbers.decay), p));
    else
      g = hn::Add(g, hn::Mul(hn::Set(d, numbers.decay), p));
    const auto m = hn::Add(hn::Mul(hn::Set(d, numbers.beta1), load<whole>(d, first + i, count)),
                           hn::Mul(hn::Set(d, numbers.rest1), g));
    const auto v = hn::Add(hn::Mul(hn::Set(d, numbers.beta2), load<whole>(d, second + i, count)),
                           hn::Mul(hn::Mul(hn::Set(d, numbers.rest2), g), g));
    store<whole>(m, d, first + i, count);
    store<whole>(v, d, second + i, count);
    const auto step = hn::Mul(hn::Set(d, numbers.rate), hn::Mul(m, hn::Set(d, numbers.scale1)));
    const auto spread = hn::Add(hn::Sqrt(hn::Mul(v, hn::Set(d, numbers.scale2))), hn::Set(d, numbers.epsilon));
    store<whole>(hn::Sub(p, hn::Div(step, spread)), d, value + i, count);
  }
};

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T, bool first_step, bool nesterov>
void momentum_sgd(Context& context, const Parameters<T>& parameters, T learning_rate, const Sgd& options) {
  const T decay = static_cast<T>(options.weight_decay), momentum = static_cast<T>(options.momentum);
  const T undamped = static_cast<T>(1 - options.dampening);
  for_elements(context, parameters, sgd_cost, [&](std::int64_t i, std::int64_t first, std::int64_t n) {
    using Step = MomentumSgd<T, first_step, nesterov>;
    run<Step, T>(Step{parameters.value[i] + first, parameters.first[i] + first, parameters.gradient[i] + first,
                      learning_rate, decay, momentum, undamped},
                 n);
  });
}

template <class T>
void sgd(Context& context, const Parameters<T>& parameters, const T* learning_rate, const Sgd& options) {
  if (std::isnan(*learning_rate)) {
    for (std::int64_t i = 0; options.first_step && parameters.first != nullptr && i < parameters.count; ++i)
      std::fill_n(parameters.first[i], parameters.size[i], T{});
    return;
  }
  if (parameters.first != nullptr) {
    const auto step = options.first_step
                          ? (options.nesterov ? momentum_sgd<T, true, true> : momentum_sgd<T, true, false>)
                          : (options.nesterov ? momentum_sgd<T, false, true> : momentum_sgd<T, false, false>);
    return step(context, parameters, *learning_rate, options);
  }
  const T decay = static_cast<T>(options.weight_decay);
  for_elements(context, parameters, sgd_cost, [&](std::int64_t i, std::int64_t first, std::int64_t n) {
    run<PlainSgd<T>, T>({parameters.value[i] + first, parameters.gradient[i] + first, *learning_rate, decay}, n);
  });
}

template <class T>
void adam(Context& context, const Parameters<T>& parameters, const T* learning_rate, std::int64_t* step,
          const Adam& options) {
  if (std::isnan(*learning_rate)) return;
  const AdamNumbers<T> numbers(*learning_rate, ++*step, options);
  const auto update = [&]<bool decoupled>() {
    for_elements(context, parameters, adam_cost, [&](std::int64_t i, std::int64_t first, std::int64_t n) {
      using Step = AdamStep<T, decoupled>;
      run<Step, T>(Step{parameters.value[i] + first, parameters.first[i] + first, parameters.second[i] + first,
                        parameters.gradient[i] + first, numbers},
                   n);
    });
  };
  options.decoupled ? update.template operator()<true>() : update.template operator()<false>();
}

template <class T>
kernels::Update<T> table() {
  return {.sgd = sgd<T>, .adam = adam<T>};
}

}  // namespace

kernels::Update<float> update_float() { return table<float>(); }
kernels::Update<double> update_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(update, update)

}  // namespace tern::vectorized
#endif
