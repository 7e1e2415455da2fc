#pragma once

#include "tern/nn/module.hpp"
#include "tern/operators/recurrent.hpp"

namespace tern::nn {

struct RecurrentOptions {
  std::int64_t layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< x and the outputs are [N, T, ...] instead of [T, N, ...]
  double dropout = 0;        ///< behind every layer but the last, while training
  bool bidirectional = false;
  Activation activation = Activation::tanh;  ///< of RNN alone
  DType dtype = DType::float32;
};

/// A state of all layers and directions: [layers * directions, N, H]; undefined for zeros. Only LSTM has a cell state.
struct RecurrentState {
  Tensor hidden = {}, cell = {};
};

/// What a recurrent layer makes of a sequence.
struct Unrolled {
  Tensor outputs;        ///< of the last layer: [T, N, directions * H]
  RecurrentState state;  ///< after each sequence's last step
};

/// Recurrent layers over sequences x [T, N, I] (or one sequence [T, I]), with torch's names, shapes, initial values and
/// order of gates: weight_ih_l0 [G H, I], weight_hh_l0 [G H, H], bias_ih_l0, bias_hh_l0 [G H], the same with _reverse,
/// and of further layers _l1, ... All are uniform in +-1 / sqrt(H).
class Recurrent : public Module {
 public:
  /// The outputs of a start from zeros.
  Tensor forward(const Tensor& x) const override { return unroll(x).outputs; }
  /// From `state`, which may be the state of a previous call. `lengths` [N] (int64): sequence n has that many steps;
  /// the outputs behind them are 0, and the other direction begins at its last one, as of torch's packed sequences.
  Unrolled unroll(const Tensor& x, const RecurrentState& state = {}, const Tensor& lengths = {}) const;
  std::string describe() const override;

 protected:
  enum class Cell : std::uint8_t { rnn, lstm, gru };
  Recurrent(Cell cell, std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Generator& generator);

 private:
  struct Weights {
    Parameter ih, hh, bias_ih, bias_hh;
  };
  const char* name() const;
  std::int64_t gates() const;
  std::vector<Tensor> direction(const Tensor& x, std::size_t index, const RecurrentState& state,
                                const Tensor& lengths) const;

  Cell cell_;
  std::int64_t in_, hidden_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;  // layer by layer, forward ahead of reverse
};

/// h = activation(weight_ih x + bias_ih + weight_hh h + bias_hh).
class RNN : public Recurrent {
 public:
  RNN(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {},
      Generator& generator = default_generator())
      : Recurrent(Cell::rnn, in, hidden, options, generator) {}
};

/// Long short-term memory: see operators::lstm.
class LSTM : public Recurrent {
 public:
  LSTM(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {},
       Generator& generator = default_generator())
      : Recurrent(Cell::lstm, in, hidden, options, generator) {}
};

/// Gated recurrent unit: see operators::gru.
class GRU : public Recurrent {
 public:
  GRU(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {},
      Generator& generator = default_generator())
      : Recurrent(Cell::gru, in, hidden, options, generator) {}
};

}  // namespace tern::nn
