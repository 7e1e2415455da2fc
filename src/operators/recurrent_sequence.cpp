#include "operators/recurrent_sequence.hpp"

#include "operators/support.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

using kernels::Sequence;

Tensor whole(const Tensor& x) { return x.defined() ? x.detach().contiguous() : Tensor{}; }

struct Whole {
  Tensor entered, hidden, cell, weight, bias;
  Sequence sizes;

  explicit Whole(const SequenceInputs& x)
      : entered(whole(x.entered)),
        hidden(whole(x.hidden)),
        cell(whole(x.cell)),
        weight(whole(x.weight)),
        bias(whole(x.bias)),
        sizes{.steps = entered.size(0), .batch = entered.size(1), .width = weight.size(1), .reverse = x.reverse} {
    // Zeros are multiplied as well: an infinite weight makes them NaN.
    if (hidden.defined()) return;
    hidden = Tensor({sizes.batch, sizes.width}, entered.dtype());  // zeros() would come from the host
    hidden.fill_(0);
  }
};

/// Which inputs need a gradient.
struct Needs {
  bool hidden, cell, weight, bias;

  explicit Needs(const SequenceInputs& x)
      : hidden(needs(x.hidden)), cell(needs(x.cell)), weight(needs(x.weight)), bias(needs(x.bias)) {}
};

/// Calls f(call, kernels) with the kernels of the mode that runs `op`, or of `maker`, which has some: a mode may leave
/// the gradients to one without.
template <class F>
void visit_recurrent(const char* op, const Mode& maker, F&& f) {
  visit(op, DType::float32, [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      const auto here = [&] {
        const Call<float> call;
        f(call, *current_scope().mode->recurrent);
      };
      if (current_scope().mode->recurrent) [[likely]]
        here();
      else
        run_in(maker, here);
    }
  });
}

void count(const Call<float>& call, const Sequence& sizes, int gates) {
  call.flops(2 * sizes.steps * sizes.batch * gates * sizes.width * sizes.width);
}

Tensor steps_as_rows(const Tensor& x) { return x.reshape({x.size(0) * x.size(1), x.size(2)}); }

/// The gradient of the weight: those of the sums [T, N, gates H], each with the state before it.
Tensor weight_gradient(const Tensor& sums, const Tensor& y, const Tensor& hidden, const Sequence& sizes) {
  const std::int64_t last = sizes.steps - 1, first = sizes.reverse ? last : 0;
  Tensor gradient;
  const auto add_product = [&](const Tensor& left, const Tensor& right) {
    const Tensor product = matmul(steps_as_rows(left), steps_as_rows(right), {.transpose_a = true});
    gradient = gradient.defined() ? add(gradient, product) : product;
  };
  if (last > 0 && !sizes.reverse) add_product(slice(sums, 0, 1, last + 1), slice(y, 0, 0, last));
  if (last > 0 && sizes.reverse) add_product(slice(sums, 0, 0, last), slice(y, 0, 1, last + 1));
  add_product(slice(sums, 0, first, first + 1), hidden.unsqueeze(0));
  return gradient;
}

/// {outputs, last state}.
std::vector<Tensor> results_of(const Tensor& y, const Sequence& sizes) {
  const std::int64_t last = sizes.reverse ? 0 : sizes.steps - 1;
  return {y, y[last]};
}

}  // namespace

bool runs_sequences(const char* op, DType dtype) {
  return dtype == DType::float32 && mode_of(op).recurrent.has_value();
}

std::vector<Tensor> lstm_sequence(const SequenceInputs& inputs) {
  constexpr const char* op = "lstm";
  const Mode& maker = mode_of(op);
  const Whole x(inputs);
  const Sequence sizes = x.sizes;
  const std::int64_t steps = sizes.steps, batch = sizes.batch, width = sizes.width;
  const bool records = recording(inputs.entered, inputs.hidden, inputs.cell, inputs.weight, inputs.bias);
  // The last cell state lies behind the outputs: one tensor, which autograd records.
  Tensor out({steps + 1, batch, width}, DType::float32);
  Tensor gates = records ? Tensor({steps, batch, 4 * width}, DType::float32) : Tensor{};
  Tensor cells = records ? Tensor({steps, batch, width}, DType::float32) : Tensor{};
  visit_recurrent(op, maker, [&](const Call<float>& call, const kernels::Recurrent& kernels) {
    count(call, sizes, 4);
    float* const y = call.out(out);
    kernels.lstm(call.context(), y, y + steps * batch * width, call.out(gates), call.out(cells), call.in(x.entered),
                 call.in(x.hidden), call.in(x.cell), call.in(x.weight), call.in(x.bias), sizes);
  });
  if (records)
    record(op, out, {inputs.entered, inputs.hidden, inputs.cell, inputs.weight, inputs.bias},
           [gates = Saved(gates), cells = Saved(cells), y = Saved(out), hidden = Saved(x.hidden),
            cell = saved_if(x.cell.defined(), x.cell), weight = Saved(x.weight), sizes, steps, batch, width,
            wanted = Needs(inputs), &maker](const Tensor& grad) {
             const Tensor both = grad.contiguous();
             Tensor sums({steps, batch, 4 * width}, DType::float32);
             Tensor to_hidden({batch, width}, DType::float32), to_cell({batch, width}, DType::float32);
             visit_recurrent(op, maker, [&](const Call<float>& call, const kernels::Recurrent& kernels) {
               count(call, sizes, 4);
               const float* const grads = call.in(both);
               kernels.lstm_backward(call.context(), call.out(sums), call.out(to_hidden), call.out(to_cell), grads,
                                     grads + steps * batch * width, call.in(gates.get()), call.in(cells.get()),
                                     call.in(cell.get()), call.in(weight.get()), sizes);
             });
             Gradients gradients{sums, wanted.hidden ? to_hidden : Tensor{}, wanted.cell ? to_cell : Tensor{}, {}, {}};
             if (wanted.weight) gradients[3] = weight_gradient(sums, slice(y.get(), 0, 0, steps), hidden.get(), sizes);
             if (wanted.bias) gradients[4] = sum(sums, {0, 1});
             return gradients;
           });
  std::vector<Tensor> results = results_of(slice(out, 0, 0, steps), sizes);
  results.push_back(out[steps]);
  return results;
}

std::vector<Tensor> gru_sequence(const SequenceInputs& inputs) {
  constexpr const char* op = "gru";
  const Mode& maker = mode_of(op);
  const Whole x(inputs);
  const Sequence sizes = x.sizes;
  const std::int64_t steps = sizes.steps, batch = sizes.batch, width = sizes.width;
  const bool records = recording(inputs.entered, inputs.hidden, inputs.weight, inputs.bias);
  Tensor y({steps, batch, width}, DType::float32);
  Tensor gates = records ? Tensor({steps, batch, 4 * width}, DType::float32) : Tensor{};
  visit_recurrent(op, maker, [&](const Call<float>& call, const kernels::Recurrent& kernels) {
    count(call, sizes, 3);
    kernels.gru(call.context(), call.out(y), call.out(gates), call.in(x.entered), call.in(x.hidden), call.in(x.weight),
                call.in(x.bias), sizes);
  });
  if (records)
    record(op, y, {inputs.entered, inputs.hidden, inputs.weight, inputs.bias},
           [gates = Saved(gates), y = Saved(y), hidden = Saved(x.hidden), weight = Saved(x.weight), sizes, steps, batch,
            width, wanted = Needs(inputs), &maker](const Tensor& grad) {
             const Tensor grads = grad.contiguous();
             Tensor to_entered({steps, batch, 3 * width}, DType::float32), sums(to_entered.shape(), DType::float32);
             Tensor to_hidden({batch, width}, DType::float32);
             visit_recurrent(op, maker, [&](const Call<float>& call, const kernels::Recurrent& kernels) {
               count(call, sizes, 3);
               kernels.gru_backward(call.context(), call.out(to_entered), call.out(sums), call.out(to_hidden),
                                    call.in(grads), call.in(gates.get()), call.in(y.get()), call.in(hidden.get()),
                                    call.in(weight.get()), sizes);
             });
             Gradients gradients{to_entered, wanted.hidden ? to_hidden : Tensor{}, {}, {}};
             if (wanted.weight) gradients[2] = weight_gradient(sums, y.get(), hidden.get(), sizes);
             if (wanted.bias) gradients[3] = sum(sums, {0, 1});
             return gradients;
           });
  return results_of(y, sizes);
}

}  // namespace tern::operators
