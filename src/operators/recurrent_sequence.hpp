#pragma once
// Recurrent layers whose mode computes a whole sequence at once (Mode::recurrent). Such a mode computes
// float32, and layers without lengths, limits and other extras; recurrent.cpp composes the rest step by step.

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// Whether the mode that runs `op` has such kernels for this dtype.
bool runs_sequences(const char* op, DType dtype);

/// entered [T, N, gates H]: what the inputs give the gates. The states may be undefined: zeros. Results as those of
/// lstm and gru.
struct SequenceInputs {
  Tensor entered, hidden, cell, weight, bias;
  bool reverse = false;
};
std::vector<Tensor> lstm_sequence(const SequenceInputs& inputs);
std::vector<Tensor> gru_sequence(const SequenceInputs& inputs);

}  // namespace tern::operators
