#include "tern/optim/mixed.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "autograd/place.hpp"
#include "optim/composed.hpp"
#include "optim/sum_of_squares.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::optim {

// ---- MasterWeights ----

MasterWeights::MasterWeights(std::vector<Tensor> weights) : weights_(std::move(weights)) {
  for (const Tensor& weight : weights_) {
    const bool narrow = weight.dtype() != scalar_of(weight.dtype());
    masters_.push_back(narrow ? wide(weight.detach()).set_requires_grad() : weight);
    if (narrow) autograd::take_place(weight, masters_.back());
    versions_.push_back(weight.storage().version());
  }
}

// A weight that somebody has changed since, by a checkpoint for instance, is taken up by its master, but for elements
// that are the master's, rounded. Without a look at the elements on the host, which a recording could not have.
void MasterWeights::take_up(std::size_t i) {
  Tensor& master = masters_[i];
  const Tensor& weight = weights_[i];
  if (master.is(weight) || versions_[i] == weight.storage().version()) return;
  master.copy_(operators::where(operators::equal(master.to(weight.dtype()), weight), master, wide(weight)));
  versions_[i] = weight.storage().version();
}

void MasterWeights::load_gradients() { load_gradients({}); }

void MasterWeights::load_gradients(const Tensor& factor) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    Tensor& master = masters_[i];
    take_up(i);
    const Tensor& gradient = weights_[i].grad();
    if (!gradient.defined()) {
      if (!master.is(weights_[i])) master.zero_grad();
    } else if (factor.defined()) {
      master.set_grad(wide(gradient) * factor.to(scalar_of(gradient.dtype())));
    } else if (!master.is(weights_[i])) {
      master.set_grad(wide(gradient));
    }
  }
}

void MasterWeights::store() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (masters_[i].is(weights_[i])) continue;
    weights_[i].copy_(masters_[i]);
    versions_[i] = weights_[i].storage().version();
  }
}

// ---- GradScaler ----

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(scalar(static_cast<float>(options.scale))), finite_steps_(scalar(0.0f)) {
  const bool finite = std::isfinite(static_cast<float>(options.scale)) && std::isfinite(options.growth);
  expects(finite && options.scale > 0 && options.growth > 1 && options.backoff > 0 && options.backoff < 1 &&
              options.interval >= 1,
          "GradScaler: scale ", options.scale, ", growth ", options.growth, ", backoff ", options.backoff,
          ", interval ", options.interval,
          "; expected a scale above 0, a growth above 1, a backoff between 0 and 1 and an interval of 1 or more");
}

// 65536 is infinite in float16.
Tensor GradScaler::scale(const Tensor& loss) const { return wide(loss) * scale_.to(scalar_of(loss.dtype())); }

Tensor GradScaler::unscale(const Tensor& scaled) const { return scaled / scale_.to(scaled.dtype()); }

namespace {

/// Whether all gradients are finite, on the device; undefined if there are none. Neither infinity nor NaN vanishes in a
/// sum.
Tensor all_finite(const std::vector<Tensor>& parameters) {
  if (const SumOfSquares over_ranks = sum_over_ranks.load()) {  // other ranks may have parts
    std::vector<Tensor> sums;
    for (const Tensor& parameter : parameters)
      sums.push_back(parameter.grad().defined() ? operators::sum(parameter.grad().to(DType::float64)).reshape({1})
                                                : Tensor{});
    const Tensor total = over_ranks(parameters, sums);
    return total.defined() ? operators::isfinite(total).reshape({}) : Tensor{};
  }
  Tensor total;
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const Tensor sum = operators::sum(parameter.grad()).to(DType::float32);
    total = total.defined() ? total + sum : sum;
  }
  return total.defined() ? operators::isfinite(total) : Tensor{};
}

/// What a step may change, by name: the parameters with a gradient and the optimiser's tensors.
nn::State changeable(const MasterWeights& weights, const Optimizer& optimizer) {
  nn::State found = optimizer.state();
  found.erase("learning_rate");
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    if (weights.parameters()[i].grad().defined())
      found.emplace("parameter " + std::to_string(i), weights.parameters()[i].detach());
  return found;
}

/// Steps, and takes everything back where that was wrong.
void step_or_restore(const MasterWeights& weights, Optimizer& optimizer, const Tensor& applies) {
  nn::State before;
  for (const auto& [name, tensor] : changeable(weights, optimizer)) before.emplace(name, tensor.clone());
  optimizer.step();
  for (auto& [name, tensor] : changeable(weights, optimizer)) {
    const auto old = before.find(name);
    tensor.copy_(
        operators::where(applies, tensor, old != before.end() ? old->second : zeros(tensor.shape(), tensor.dtype())));
  }
}

}  // namespace

void GradScaler::step(MasterWeights& weights, Optimizer& optimizer, const std::function<void()>& change) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights.weights_.size(); ++i)
    expects(weights.masters_[i].is(weights.weights_[i]) ||
                std::ranges::none_of(optimizer.parameters(),
                                     [&](const Tensor& changed) { return changed.is(weights.weights_[i]); }),
            "GradScaler: the optimiser changes 16-bit weights, which their masters would then replace; make it with "
            "the parameters() of the MasterWeights");
  weights.load_gradients(1.0 / scale_);
  Tensor finite = all_finite(weights.parameters());
  if (!finite.defined()) finite = operators::isfinite(scale_);  // without gradients nothing overflows
  if (change) change();
  optimizer.conditional() ? optimizer.step_if(finite) : step_or_restore(weights, optimizer, finite);
  weights.store();

  const Tensor steps = finite_steps_ + 1.0;
  const Tensor grows = steps >= static_cast<double>(options_.interval);
  const Tensor more = scale_ * options_.growth;  // infinite, it would stay so
  const Tensor grown = operators::where(operators::logical_and(grows, operators::isfinite(more)), more, scale_);
  finite_steps_.copy_(operators::where(finite, operators::where(grows, 0.0, steps), 0.0));
  scale_.copy_(operators::where(finite, grown, scale_ * options_.backoff));
}

nn::State GradScaler::state() const { return {{"scale", scale_}, {"finite_steps", finite_steps_}}; }

void GradScaler::load_state(const nn::State& state) {
  nn::load_tensors("load_state: the state does not fit this GradScaler",
                   {{"scale", scale_}, {"finite_steps", finite_steps_}}, state);
}

}  // namespace tern::optim
