// Recurrent layers: the products with all inputs are one product; the steps follow one after the other.

#include "tern/operators/recurrent.hpp"

#include <memory>
#include <optional>

#include "operators/composed.hpp"
#include "operators/recurrent_sequence.hpp"
#include "operators/traced.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// state weight^T + bias in every step. The gradients of weight and bias wait until those of all steps are there: then
// they are one product, instead of one for each step. `token` makes backward wait: every step's product depends on it,
// and it depends on weight and bias.
class StepProduct {
 public:
  StepProduct(const char* op, const Tensor& weight, const Tensor& bias) : op_(op), weight_(weight), bias_(bias) {
    if (!recording(weight, bias)) return;
    steps_ = std::make_shared<Steps>();
    token_ = Tensor(Shape{1}, weight.dtype());
    record(op, token_, {weight, bias},
           [steps = steps_, weight_needs = needs(weight), bias_needs = needs(bias)](const Tensor&) {
             const Tensor grads = cat(steps->grads, 0), states = cat(steps->states, 0);
             steps->grads.clear();
             steps->states.clear();
             return Gradients{weight_needs ? matmul(grads, states, {.transpose_a = true}) : Tensor{},
                              bias_needs ? sum(grads, {0}) : Tensor{}};
           });
  }

  Tensor operator()(const Tensor& state) const {
    Tensor out = linear(state.detach(), weight_.detach(), bias_.defined() ? bias_.detach() : bias_);
    if (recording(state, token_))
      record(op_, out, {state, token_},
             [steps = steps_, state = Saved(state), weight = saved_if(needs(state), weight_),
              waits = needs(token_)](const Tensor& grad) {
               if (waits) {
                 steps->grads.push_back(grad);
                 steps->states.push_back(state.get());
               }
               return Gradients{weight.defined() ? matmul(grad, weight.get()) : Tensor{},
                                waits ? number_like(grad, 0).reshape({1}) : Tensor{}};
             });
    return out;
  }

 private:
  struct Steps {
    std::vector<Tensor> grads, states;  // in the order in which backward reaches the steps
  };
  const char* op_;
  Tensor weight_, bias_, token_;
  std::shared_ptr<Steps> steps_;
};

struct Weights {
  const Tensor &ih, &hh, &bias_ih, &bias_hh;
};

// The inputs of one direction, in the dtype that it computes in.
struct Layer {
  const char* op;
  std::int64_t steps, batch, width;
  DType wide;
  Tensor weight, bias;       // of the hidden state
  Tensor entered;            // weight_ih x + bias_ih [T, N, gates H]
  std::vector<Tensor> runs;  // of each step: [N, 1] bool, whether a sequence still goes on; empty without lengths

  Layer(const char* name, std::int64_t gates, const Tensor& x, const Weights& weights, const Tensor& given_lengths)
      : op(name) {
    const auto& [weight_ih, weight_hh, bias_ih, bias_hh] = weights;
    check_dtypes(op, x, weight_ih);
    check_dtypes(op, x, weight_hh);
    check_floating(op, "the input", x);
    check_rank(op, "the input", x, 3);
    check_rank(op, "weight_hh", weight_hh, 2);
    steps = x.size(0), batch = x.size(1), width = weight_hh.size(1);
    wide = scalar_of(x.dtype());
    const bool fits =
        width >= 1 && weight_hh.size(0) == gates * width && weight_ih.shape() == Shape{gates * width, x.size(2)};
    expects<ShapeError>(fits, op, ": weight_ih ", weight_ih.shape(), " and weight_hh ", weight_hh.shape(),
                        " for an input of ", x.shape(), ", expected [", gates, " H, ", x.size(2), "] and [", gates,
                        " H, H]");
    expects<ShapeError>(steps >= 1, op, ": no steps in an input of ", x.shape());
    for (const Tensor& one : {bias_ih, bias_hh}) {
      if (!one.defined()) continue;
      check_dtypes(op, x, one);
      expects<ShapeError>(one.shape() == Shape{gates * width}, op, ": a bias of ", one.shape(), ", expected [",
                          gates * width, "]");
    }
    const auto widened = [&](const Tensor& of) { return of.defined() ? of.to(wide) : of; };
    weight = widened(weight_hh);
    bias = widened(bias_hh);
    Tensor taken = widened(x);
    if (given_lengths.defined()) {
      expects<DTypeError>(given_lengths.dtype() == DType::int64 || given_lengths.dtype() == DType::int32, op,
                          ": lengths are ", given_lengths.dtype(), ", expected int64");
      expects<ShapeError>(given_lengths.shape() == Shape{batch}, op, ": lengths ", given_lengths.shape(),
                          ", expected [", batch, "]");
      const Tensor lengths = given_lengths.to(DType::float64).reshape({batch, 1});
      for (std::int64_t t = 0; t < steps; ++t) runs.push_back(greater(lengths, static_cast<double>(t)));
      // What lies behind a sequence's end may be anything, and would reach the gradients as 0 times that.
      taken = where(stack(runs, 0), taken, number_like(taken, 0));
    }
    entered = linear(taken, widened(weight_ih), widened(bias_ih));
  }

  Tensor start(const char* which, const Tensor& state, const Tensor& x) const {
    return state.defined() ? checked(which, state, x) : number_like(entered, 0).expand({batch, width});
  }
  Tensor checked(const char* which, const Tensor& state, const Tensor& x) const {
    if (!state.defined()) return state;
    check_dtypes(op, x, state);
    expects<ShapeError>(state.shape() == Shape{batch, width}, op, ": ", which, ' ', state.shape(), ", expected [",
                        batch, ',', width, "]");
    return state.to(wide);
  }

  // Whether kernels for whole sequences compute this layer.
  bool at_once(double clip) const { return runs.empty() && clip <= 0 && batch > 0 && runs_sequences(op, wide); }

  // Gate number `index` of `gates`, which are side by side.
  Tensor gate(const Tensor& gates, std::int64_t index) const {
    return slice(gates, -1, index * width, (index + 1) * width);
  }

  // advance(gates of x, states) changes the states; the first one is the output.
  template <class Advance>
  std::vector<Tensor> run(std::vector<Tensor> states, bool reverse, DType dtype, Advance advance) const {
    std::vector<Tensor> outputs(static_cast<std::size_t>(steps));
    const std::vector<Tensor> all = unbind(entered, 0);
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t t = reverse ? steps - 1 - i : i;
      const auto at = static_cast<std::size_t>(t);
      const std::vector<Tensor> before = states;
      advance(all[at], states);
      outputs[at] = states[0];
      if (runs.empty()) continue;
      outputs[at] = where(runs[at], states[0], number_like(states[0], 0));
      for (std::size_t k = 0; k < states.size(); ++k) states[k] = where(runs[at], states[k], before[k]);
    }
    std::vector<Tensor> results{stack(outputs, 0).to(dtype)};
    for (const Tensor& state : states) results.push_back(state.to(dtype));
    return results;
  }
};

std::vector<Tensor> converted(std::vector<Tensor> results, DType dtype) {
  for (Tensor& each : results) each = each.to(dtype);
  return results;
}

Tensor limited(const Tensor& x, double clip) { return clip > 0 ? clamp(x, -clip, clip) : x; }

}  // namespace

std::vector<Tensor> rnn(const Tensor& x, const Tensor& hidden, const Tensor& weight_ih, const Tensor& weight_hh,
                        const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& lengths,
                        const RnnOptions& options) {
  if (traces())
    return traced<std::vector<Tensor>>("rnn", x, hidden, weight_ih, weight_hh, bias_ih, bias_hh, lengths, options);
  const Layer layer("rnn", 1, x, {weight_ih, weight_hh, bias_ih, bias_hh}, lengths);
  const Unshortened unshortened(x.dtype());
  const StepProduct own("rnn", layer.weight, layer.bias);
  return layer.run({layer.start("hidden state", hidden, x)}, options.reverse, x.dtype(),
                   [&](const Tensor& entered, std::vector<Tensor>& states) {
                     const Tensor sum = add(entered, own(states[0]));
                     states[0] = activate(limited(sum, options.clip), options.activation);
                   });
}

std::vector<Tensor> lstm(const Tensor& x, const Tensor& hidden, const Tensor& cell, const Tensor& weight_ih,
                         const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& peepholes,
                         const Tensor& lengths, const LstmOptions& options) {
  if (traces())
    return traced<std::vector<Tensor>>("lstm", x, hidden, cell, weight_ih, weight_hh, bias_ih, bias_hh, peepholes,
                                       lengths, options);
  const Layer layer("lstm", 4, x, {weight_ih, weight_hh, bias_ih, bias_hh}, lengths);
  std::vector<Tensor> peep;
  if (peepholes.defined()) {
    check_dtypes("lstm", x, peepholes);
    expects<ShapeError>(peepholes.shape() == Shape{3 * layer.width}, "lstm: peepholes ", peepholes.shape(),
                        ", expected [", 3 * layer.width, "]");
    peep = chunk(peepholes.to(layer.wide), 3);
  }
  if (peep.empty() && !options.input_forget && layer.at_once(options.clip))
    return converted(lstm_sequence({.entered = layer.entered,
                                    .hidden = layer.checked("hidden state", hidden, x),
                                    .cell = layer.checked("cell state", cell, x),
                                    .weight = layer.weight,
                                    .bias = layer.bias,
                                    .reverse = options.reverse}),
                     x.dtype());
  const Unshortened unshortened(x.dtype());
  const StepProduct own("lstm", layer.weight, layer.bias);
  return layer.run({layer.start("hidden state", hidden, x), layer.start("cell state", cell, x)}, options.reverse,
                   x.dtype(), [&](const Tensor& entered, std::vector<Tensor>& states) {
                     const Tensor sum = add(entered, own(states[0]));
                     const auto gate = [&](std::int64_t index, const Tensor& state, std::size_t peephole) {
                       const Tensor alone = layer.gate(sum, index);
                       return limited(peep.empty() ? alone : add(alone, mul(state, peep[peephole])), options.clip);
                     };
                     const Tensor in = sigmoid(gate(0, states[1], 0));
                     const Tensor kept = options.input_forget ? sub(1, in) : sigmoid(gate(1, states[1], 1));
                     const Tensor candidate = tanh(limited(layer.gate(sum, 2), options.clip));
                     // One after another: in which order gradients are added up must not depend on the compiler.
                     const Tensor entering = mul(in, candidate);
                     states[1] = add(mul(kept, states[1]), entering);
                     const Tensor shown = tanh(states[1]);
                     states[0] = mul(sigmoid(gate(3, states[1], 2)), shown);
                   });
}

std::vector<Tensor> gru(const Tensor& x, const Tensor& hidden, const Tensor& weight_ih, const Tensor& weight_hh,
                        const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& lengths,
                        const GruOptions& options) {
  if (traces())
    return traced<std::vector<Tensor>>("gru", x, hidden, weight_ih, weight_hh, bias_ih, bias_hh, lengths, options);
  const Layer layer("gru", 3, x, {weight_ih, weight_hh, bias_ih, bias_hh}, lengths);
  const std::int64_t width = layer.width;
  if (options.reset_after && layer.at_once(options.clip))
    return converted(gru_sequence({.entered = layer.entered,
                                   .hidden = layer.checked("hidden state", hidden, x),
                                   .cell = {},
                                   .weight = layer.weight,
                                   .bias = layer.bias,
                                   .reverse = options.reverse}),
                     x.dtype());
  const auto rows = [&](const Tensor& of, std::int64_t begin, std::int64_t end) {
    return of.defined() ? slice(of, 0, begin, end) : of;
  };
  const auto product = [&](std::int64_t begin, std::int64_t end) {
    return StepProduct("gru", rows(layer.weight, begin * width, end * width),
                       rows(layer.bias, begin * width, end * width));
  };
  // The gates that take the state as it is, and the candidate's where it takes the reset state.
  const StepProduct own = product(0, options.reset_after ? 3 : 2);
  const std::optional<StepProduct> reset_own = options.reset_after ? std::nullopt : std::optional(product(2, 3));
  const Unshortened unshortened(x.dtype());
  return layer.run(
      {layer.start("hidden state", hidden, x)}, options.reverse, x.dtype(),
      [&](const Tensor& entered, std::vector<Tensor>& states) {
        const Tensor state = states[0], sums = own(state);
        const Tensor both =
            sigmoid(limited(add(slice(entered, -1, 0, 2 * width), slice(sums, -1, 0, 2 * width)), options.clip));
        const Tensor reset = layer.gate(both, 0), update = layer.gate(both, 1);
        const Tensor past = options.reset_after ? mul(reset, layer.gate(sums, 2)) : (*reset_own)(mul(reset, state));
        const Tensor candidate = tanh(limited(add(layer.gate(entered, 2), past), options.clip));
        states[0] = add(candidate, mul(update, sub(state, candidate)));
      });
}

}  // namespace tern::operators
