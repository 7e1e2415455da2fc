// Recurrent layers, number by number.

#include <algorithm>
#include <cmath>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/recurrent.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

enum class Cell : std::uint8_t { rnn, lstm, gru };

struct Use {
  std::string name;
  std::int64_t steps, batch, inputs, width;
  bool bias = true, state = true, lengths = false, reverse = false, peepholes = false;
  bool variant = false;  ///< rnn: relu; lstm: input_forget; gru: not reset_after
  double clip = 0;
};

std::int64_t gates_of(Cell cell) { return cell == Cell::rnn ? 1 : cell == Cell::lstm ? 4 : 3; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The places of the inputs; -1 for those that are left out.
struct Places {
  int hidden = -1, cell = -1, weight_ih = 0, weight_hh = 0, bias_ih = -1, bias_hh = -1, peepholes = -1, lengths = -1;
};

struct Inputs {
  std::vector<Argument> arguments;
  Places at;
};

Inputs inputs_of(Cell cell, const Use& use) {
  Inputs made;
  const auto add = [&](Argument argument) {
    made.arguments.push_back(std::move(argument));
    return static_cast<int>(made.arguments.size()) - 1;
  };
  const std::int64_t rows = gates_of(cell) * use.width;
  add(uniform({use.steps, use.batch, use.inputs}));
  if (use.state) made.at.hidden = add(uniform({use.batch, use.width}));
  if (use.state && cell == Cell::lstm) made.at.cell = add(uniform({use.batch, use.width}));
  made.at.weight_ih = add(uniform({rows, use.inputs}));
  made.at.weight_hh = add(uniform({rows, use.width}, -0.5, 0.5));
  if (use.bias) made.at.bias_ih = add(uniform({rows}));
  if (use.bias) made.at.bias_hh = add(uniform({rows}));
  if (use.peepholes) made.at.peepholes = add(uniform({3 * use.width}));
  if (use.lengths) {
    Argument lengths = integers({use.batch}, 0, static_cast<double>(use.steps));
    lengths.dtype = DType::int64;
    made.at.lengths = add(constant(lengths));
  }
  return made;
}

std::vector<Array> reference(Cell cell, const Use& use, const Places& at, const std::vector<Array>& in) {
  const std::int64_t width = use.width, gates = gates_of(cell);
  const auto array = [&](int place) -> const Array& { return in[static_cast<std::size_t>(place)]; };
  const auto limited = [&](double x) { return use.clip > 0 ? std::min(std::max(x, -use.clip), use.clip) : x; };
  Array out({use.steps, use.batch, width}), h({use.batch, width}), c({use.batch, width});
  if (at.hidden >= 0) h = array(at.hidden);
  if (at.cell >= 0) c = array(at.cell);
  for (std::int64_t n = 0; n < use.batch; ++n)
    for (std::int64_t i = 0; i < use.steps; ++i) {
      const std::int64_t t = use.reverse ? use.steps - 1 - i : i;
      if (at.lengths >= 0 && static_cast<double>(t) >= array(at.lengths)[n]) continue;
      const auto entered = [&](std::int64_t row) {
        double sum = at.bias_ih >= 0 ? array(at.bias_ih)[row] : 0;
        for (std::int64_t k = 0; k < use.inputs; ++k) sum += array(at.weight_ih).at({row, k}) * in[0].at({t, n, k});
        return sum;
      };
      const auto own = [&](std::int64_t row, const std::vector<double>& state) {
        double sum = at.bias_hh >= 0 ? array(at.bias_hh)[row] : 0;
        for (std::int64_t k = 0; k < width; ++k)
          sum += array(at.weight_hh).at({row, k}) * state[static_cast<std::size_t>(k)];
        return sum;
      };
      std::vector<double> state;
      for (std::int64_t k = 0; k < width; ++k) state.push_back(h.at({n, k}));
      std::vector<double> gate(static_cast<std::size_t>(gates * width)), reset;
      const auto sum = [&](std::int64_t row) { return entered(row) + own(row, state); };
      if (cell == Cell::gru)
        for (std::int64_t k = 0; k < width; ++k)
          reset.push_back(sigmoid(limited(sum(k))) * state[static_cast<std::size_t>(k)]);
      for (std::int64_t k = 0; k < width; ++k) {
        double& now = h.at({n, k});
        if (cell == Cell::rnn) {
          now = use.variant ? std::max(limited(sum(k)), 0.0) : std::tanh(limited(sum(k)));
        } else if (cell == Cell::lstm) {
          const auto peep = [&](std::int64_t which, double value) {
            return at.peepholes >= 0 ? array(at.peepholes)[which * width + k] * value : 0;
          };
          double& memory = c.at({n, k});
          const double input = sigmoid(limited(sum(k) + peep(0, memory)));
          const double kept = use.variant ? 1 - input : sigmoid(limited(sum(width + k) + peep(1, memory)));
          memory = kept * memory + input * std::tanh(limited(sum(2 * width + k)));
          now = sigmoid(limited(sum(3 * width + k) + peep(2, memory))) * std::tanh(memory);
        } else {
          const double r = sigmoid(limited(sum(k))), z = sigmoid(limited(sum(width + k)));
          const double past = use.variant ? own(2 * width + k, reset) : r * own(2 * width + k, state);
          const double candidate = std::tanh(limited(entered(2 * width + k) + past));
          now = (1 - z) * candidate + z * state[static_cast<std::size_t>(k)];
        }
        out.at({t, n, k}) = now;
      }
    }
  if (cell == Cell::lstm) return {out, h, c};
  return {out, h};
}

std::vector<Tensor> called(Cell cell, const Use& use, const Places& at, const std::vector<Tensor>& in) {
  const auto tensor = [&](int place) { return place < 0 ? Tensor() : in[static_cast<std::size_t>(place)]; };
  const Tensor hidden = tensor(at.hidden), ih = tensor(at.weight_ih), hh = tensor(at.weight_hh),
               bias_ih = tensor(at.bias_ih), bias_hh = tensor(at.bias_hh), lengths = tensor(at.lengths);
  if (cell == Cell::rnn)
    return op::rnn(
        in[0], hidden, ih, hh, bias_ih, bias_hh, lengths,
        {.activation = use.variant ? Activation::relu : Activation::tanh, .reverse = use.reverse, .clip = use.clip});
  if (cell == Cell::lstm)
    return op::lstm(in[0], hidden, tensor(at.cell), ih, hh, bias_ih, bias_hh, tensor(at.peepholes), lengths,
                    {.reverse = use.reverse, .clip = use.clip, .input_forget = use.variant});
  return op::gru(in[0], hidden, ih, hh, bias_ih, bias_hh, lengths,
                 {.reverse = use.reverse, .clip = use.clip, .reset_after = !use.variant});
}

Operator layer(const char* name, Cell cell) {
  Operator op{.name = name, .ulps = 16};
  std::vector<Use> uses{{"one step", 1, 2, 3, 4},
                        {"a number", 3, 1, 1, 1},
                        {"five steps", 5, 3, 4, 6},
                        {"no bias, no state", 4, 2, 3, 5, false, false},
                        {"backwards", 4, 2, 3, 5, true, true, false, true},
                        {"of different lengths", 6, 5, 3, 4, true, true, true},
                        {"of different lengths, backwards", 6, 5, 3, 4, true, true, true, true},
                        {"no sequences", 3, 0, 2, 4},
                        {"wide", 7, 4, 9, 33},
                        {"several panels", 3, 13, 5, 70},
                        {"several panels, no state, backwards", 4, 9, 6, 150, true, false, false, true},
                        {.name = "the other form", .steps = 4, .batch = 2, .inputs = 3, .width = 5, .variant = true},
                        {.name = "clipped", .steps = 4, .batch = 2, .inputs = 3, .width = 5, .clip = 0.75}};
  if (cell == Cell::lstm) {
    uses.push_back({.name = "peepholes", .steps = 4, .batch = 2, .inputs = 3, .width = 5, .peepholes = true});
    uses.push_back({.name = "peepholes, of different lengths",
                    .steps = 4,
                    .batch = 3,
                    .inputs = 2,
                    .width = 3,
                    .lengths = true,
                    .peepholes = true});
  }
  for (const Use& use : uses) {
    const Inputs inputs = inputs_of(cell, use);
    const double terms = static_cast<double>((use.inputs + use.width) * use.steps);
    op.samples.push_back(
        {.name = use.name,
         .arguments = inputs.arguments,
         .call = [cell, use, at = inputs.at](const std::vector<Tensor>& in) { return called(cell, use, at, in); },
         .reference = [cell, use,
                       at = inputs.at](const std::vector<Array>& in) { return reference(cell, use, at, in); },
         .terms = terms,
         .gradient_terms = terms * 8,
         .roundings = 2,
         .large_arguments = 0});
  }
  const std::int64_t rows = gates_of(cell) * 4;
  const auto call = [cell](const Shape& x, const Shape& ih, const Shape& hh, const Tensor& bias = {},
                           const Tensor& hidden = {}, const Tensor& lengths = {}) {
    return [=] {
      if (cell == Cell::rnn) op::rnn(ones(x), hidden, ones(ih), ones(hh), bias, {}, lengths);
      if (cell == Cell::lstm) op::lstm(ones(x), hidden, {}, ones(ih), ones(hh), bias, {}, {}, lengths);
      if (cell == Cell::gru) op::gru(ones(x), hidden, ones(ih), ones(hh), bias, {}, lengths);
    };
  };
  op.refuses("another number of inputs", Kind::shape, {"[3,2,5]", message('[', rows, ",6]")},
             call({3, 2, 5}, {rows, 6}, {rows, 4}));
  op.refuses("another number of gates", Kind::shape, {message('[', rows + 1, ",4]")},
             call({3, 2, 5}, {rows, 5}, {rows + 1, 4}));
  op.refuses("two dimensions", Kind::shape, {"[3,5]"}, call({3, 5}, {rows, 5}, {rows, 4}));
  op.refuses("no steps", Kind::shape, {"no steps"}, call({0, 2, 5}, {rows, 5}, {rows, 4}));
  op.refuses("another bias", Kind::shape, {"[3]"}, call({3, 2, 5}, {rows, 5}, {rows, 4}, ones({3})));
  op.refuses("another state", Kind::shape, {"[2,3]", "[2,4]"}, call({3, 2, 5}, {rows, 5}, {rows, 4}, {}, ones({2, 3})));
  op.refuses("lengths of numbers", Kind::dtype, {"float32"}, call({3, 2, 5}, {rows, 5}, {rows, 4}, {}, {}, ones({2})));
  op.refuses("another number of lengths", Kind::shape, {"[3]", "[2]"},
             call({3, 2, 5}, {rows, 5}, {rows, 4}, {}, {}, ones({3}, DType::int64)));
  return op;
}

}  // namespace

std::vector<Operator> recurrent_cases() {
  return {layer("rnn", Cell::rnn), layer("lstm", Cell::lstm), layer("gru", Cell::gru)};
}

}  // namespace tern::testing
