#include <algorithm>
#include <cmath>

#include "functions.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Adam;
using kernels::Parameters;
using kernels::Sgd;

template <class T>
void sgd(Context&, const Parameters<T>& parameters, const Scalar<T>* learning_rate, const Sgd& options) {
  if (std::isnan(*learning_rate)) {
    for (std::int64_t i = 0; options.first_step && parameters.first != nullptr && i < parameters.count; ++i)
      std::fill_n(parameters.first[i], parameters.size[i], Scalar<T>{});
    return;
  }
  for (std::int64_t parameter = 0; parameter < parameters.count; ++parameter) {
    T* p = parameters.value[parameter];
    Scalar<T>* v = parameters.first != nullptr ? parameters.first[parameter] : nullptr;
    for (std::int64_t i = 0; i < parameters.size[parameter]; ++i) {
      double g = load(parameters.gradient[parameter][i]) + options.weight_decay * load(p[i]);
      if (v != nullptr) {
        v[i] = static_cast<Scalar<T>>(options.first_step ? g : options.momentum * v[i] + (1 - options.dampening) * g);
        g = options.nesterov ? g + options.momentum * v[i] : v[i];
      }
      p[i] = store<T>(load(p[i]) - *learning_rate * g);
    }
  }
}

template <class T>
void adam(Context&, const Parameters<T>& parameters, const Scalar<T>* learning_rate, std::int64_t* step,
          const Adam& options) {
  if (std::isnan(*learning_rate)) return;
  const double t = static_cast<double>(++*step);
  const double rate = *learning_rate;
  for (std::int64_t parameter = 0; parameter < parameters.count; ++parameter) {
    T* p = parameters.value[parameter];
    Scalar<T>* m = parameters.first[parameter];
    Scalar<T>* v = parameters.second[parameter];
    for (std::int64_t i = 0; i < parameters.size[parameter]; ++i) {
      double value = load(p[i]), g = load(parameters.gradient[parameter][i]);
      if (options.decoupled)
        value -= rate * options.weight_decay * value;
      else
        g += options.weight_decay * value;
      m[i] = static_cast<Scalar<T>>(options.beta1 * m[i] + (1 - options.beta1) * g);
      v[i] = static_cast<Scalar<T>>(options.beta2 * v[i] + (1 - options.beta2) * g * g);
      const double first = m[i] / (1 - std::pow(options.beta1, t));
      const double second = v[i] / (1 - std::pow(options.beta2, t));
      p[i] = store<T>(value - rate * first / (std::sqrt(second) + options.epsilon));
    }
  }
}

}  // namespace

template <class T>
kernels::Update<T> update() {
  return {.sgd = sgd<T>, .adam = adam<T>};
}
template kernels::Update<float> update<float>();
template kernels::Update<double> update<double>();
template kernels::Update<BFloat16> update<BFloat16>();
template kernels::Update<Float16> update<Float16>();

}  // namespace tern::sequential
