#pragma once

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// All parameters of one optimiser: arrays of `count` pointers and sizes in host memory, read before the call returns.
template <class T>
struct Parameters {
  std::int64_t count = 0;
  T* const* value = nullptr;
  const T* const* gradient = nullptr;
  Scalar<T>* const* first = nullptr;   ///< momentum, or Adam's first moment; may be null for SGD without momentum
  Scalar<T>* const* second = nullptr;  ///< Adam's second moment; null for SGD
  const std::int64_t* size = nullptr;

  using Members = MemberList<&Parameters::count, &Parameters::value, &Parameters::gradient, &Parameters::first,
                             &Parameters::second, &Parameters::size>;
};

/// torch.optim.SGD: g += weight_decay p; v = first_step ? g : momentum v + (1 - dampening) g; g = nesterov ? g +
/// momentum v : v; p -= learning_rate g.
struct Sgd {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;  ///< v holds nothing yet

  using Members = MemberList<&Sgd::momentum, &Sgd::dampening, &Sgd::weight_decay, &Sgd::nesterov, &Sgd::first_step>;
};

/// torch.optim.Adam and AdamW: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; p -= learning_rate * (m / (1
/// - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon). If decoupled, g does not include p.
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = false;  ///< AdamW: first p -= learning_rate * weight_decay * p, instead of g += weight_decay p

  using Members = MemberList<&Adam::beta1, &Adam::beta2, &Adam::epsilon, &Adam::weight_decay, &Adam::decoupled>;
};

/// One optimiser step over all parameters in one call. `learning_rate` and `step` are single values in the mode's
/// memory, so that a replayed step reads their current value.
template <class T>
struct Update {
  Kernel<void(Context&, const Parameters<T>&, const Scalar<T>* learning_rate, const Sgd&)> sgd;
  /// `step` is incremented first, then used as t.
  Kernel<void(Context&, const Parameters<T>&, const Scalar<T>* learning_rate, std::int64_t* step, const Adam&)> adam;

  using Members = MemberList<&Update::sgd, &Update::adam>;
};

}  // namespace tern::kernels
