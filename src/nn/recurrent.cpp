#include "tern/nn/recurrent.hpp"

#include <cmath>

#include "tern/nn/init.hpp"
#include "tern/operators/shape.hpp"

namespace tern::nn {

const char* Recurrent::name() const { return cell_ == Cell::rnn ? "RNN" : cell_ == Cell::lstm ? "LSTM" : "GRU"; }
std::int64_t Recurrent::gates() const { return cell_ == Cell::rnn ? 1 : cell_ == Cell::lstm ? 4 : 3; }

Recurrent::Recurrent(Cell cell, std::int64_t in, std::int64_t hidden, const RecurrentOptions& options,
                     Generator& generator)
    : cell_(cell), in_(in), hidden_(hidden), options_(options) {
  expects<ShapeError>(in > 0 && hidden > 0 && options.layers > 0, name(), ": ", in, " inputs, ", hidden,
                      " hidden units and ", options.layers, " layers, expected at least 1 of each");
  expects<DTypeError>(is_floating(options.dtype), name(), ": weights must be floating, not ", options.dtype);
  expects<NumericError>(options.dropout >= 0 && options.dropout <= 1, name(), ": dropout ", options.dropout,
                        " is outside [0, 1]");
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const std::int64_t directions = options.bidirectional ? 2 : 1, rows = gates() * hidden;
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::string ending = message("_l", layer, direction == 1 ? "_reverse" : "");
      const auto start = [&](const char* what, const Shape& shape) {
        return parameter(what + ending, init::uniform_(Tensor(shape, options.dtype), generator, -bound, bound));
      };
      const auto bias = [&](const char* what) {
        return options.bias ? start(what, {rows}) : parameter(what + ending, Tensor());
      };
      const Parameter ih = start("weight_ih", {rows, layer == 0 ? in : directions * hidden}),
                      hh = start("weight_hh", {rows, hidden}), bias_ih = bias("bias_ih"), bias_hh = bias("bias_hh");
      weights_.push_back({ih, hh, bias_ih, bias_hh});
    }
}

std::vector<Tensor> Recurrent::direction(const Tensor& x, std::size_t index, const RecurrentState& state,
                                         const Tensor& lengths) const {
  const auto own = [&](const Tensor& all) {
    const auto place = static_cast<std::int64_t>(index);
    return all.defined() ? all.slice(0, place, place + 1).squeeze(0) : all;
  };
  const Weights& w = weights_[index];
  const bool reverse = options_.bidirectional && index % 2 == 1;
  if (cell_ == Cell::lstm)
    return operators::lstm(x, own(state.hidden), own(state.cell), w.ih, w.hh, w.bias_ih, w.bias_hh, {}, lengths,
                           {.reverse = reverse});
  if (cell_ == Cell::gru)
    return operators::gru(x, own(state.hidden), w.ih, w.hh, w.bias_ih, w.bias_hh, lengths, {.reverse = reverse});
  return operators::rnn(x, own(state.hidden), w.ih, w.hh, w.bias_ih, w.bias_hh, lengths,
                        {.activation = options_.activation, .reverse = reverse});
}

Unrolled Recurrent::unroll(const Tensor& given, const RecurrentState& state, const Tensor& lengths) const {
  expects<ShapeError>(given.defined() && (given.rank() == 2 || given.rank() == 3) && given.size(-1) == in_, name(),
                      ": the input is ", given.defined() ? given.shape() : Shape{}, ", expected [T, N, ", in_, "]");
  const bool single = given.rank() == 2;
  if (single) {
    const auto batched = [](const Tensor& of) { return of.defined() ? of.unsqueeze(1) : of; };
    const Tensor one = given.unsqueeze(options_.batch_first ? 0 : 1);
    const Unrolled all = unroll(one, {batched(state.hidden), batched(state.cell)}, lengths);
    const auto without = [](const Tensor& of) { return of.defined() ? of.squeeze(1) : of; };
    return {all.outputs.squeeze(options_.batch_first ? 0 : 1), {without(all.state.hidden), without(all.state.cell)}};
  }
  const auto directions = static_cast<std::size_t>(options_.bidirectional ? 2 : 1);
  const auto count = static_cast<std::int64_t>(weights_.size());
  expects(cell_ == Cell::lstm || !state.cell.defined(), name(), ": a cell state, which only LSTM has");
  for (const Tensor& one : {state.hidden, state.cell})
    expects<ShapeError>(!one.defined() || (one.rank() == 3 && one.size(0) == count), name(), ": a state of ",
                        one.defined() ? one.shape() : Shape{}, ", expected [", count, ", N, ", hidden_, "]");
  Tensor x = options_.batch_first ? given.transpose(0, 1) : given;
  std::vector<Tensor> hidden, cell;
  for (std::size_t first = 0; first < weights_.size(); first += directions) {
    if (first > 0 && options_.dropout > 0) x = operators::dropout(x, options_.dropout, training());
    std::vector<Tensor> outputs;
    for (std::size_t i = first; i < first + directions; ++i) {
      const std::vector<Tensor> results = direction(x, i, state, lengths);
      outputs.push_back(results[0]);
      hidden.push_back(results[1]);
      if (results.size() > 2) cell.push_back(results[2]);
    }
    x = directions == 1 ? outputs[0] : operators::cat(outputs, -1);
  }
  return {options_.batch_first ? x.transpose(0, 1) : x,
          {operators::stack(hidden, 0), cell.empty() ? Tensor() : operators::stack(cell, 0)}};
}

std::string Recurrent::describe() const {
  return message(name(), '(', in_, ", ", hidden_, options_.layers > 1 ? message(", layers ", options_.layers) : "",
                 options_.bidirectional ? ", bidirectional" : "", options_.bias ? "" : ", no bias",
                 options_.batch_first ? ", batch first" : "",
                 options_.dropout > 0 ? message(", dropout ", options_.dropout) : "", ')');
}

}  // namespace tern::nn
