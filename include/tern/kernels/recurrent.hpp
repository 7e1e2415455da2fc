#pragma once

#include <compare>

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// `steps` steps of `batch` sequences with `width` hidden units, in this order or, if `reverse`, from the last on. No
/// size is 0.
struct Sequence {
  std::int64_t steps = 1, batch = 1, width = 1;
  bool reverse = false;
  auto operator<=>(const Sequence&) const = default;

  using Members = MemberList<&Sequence::steps, &Sequence::batch, &Sequence::width, &Sequence::reverse>;
};

/// Whole sequences of recurrent layers in float32. T steps, N sequences, H units; gates lie side by side: (i, f, g, o)
/// of an LSTM in rows of 4 H, (r, z, n) of a GRU in rows of 3 H. `entered` holds what the inputs give each gate, with
/// their bias, `weight` [gates H, H] and `bias` (or null) belong to the hidden state. `hidden` and `cell` [N, H] are
/// the states before the first step, zeros if null.
struct Recurrent {
  /// y [T, N, H] and the last cell state [N, H]. `gates` [T, N, 4 H], the gates behind their activations, and `cells`
  /// [T, N, H] are for backward and may be null together.
  Kernel<void(Context&, float* y, float* last_cell, float* gates, float* cells, const float* entered,
              const float* hidden, const float* cell, const float* weight, const float* bias, const Sequence&)>
      lstm;
  /// The gradients of `entered`, `hidden` and `cell` for those of y and of the last cell state (or null): each step's
  /// own, with what the later steps add.
  Kernel<void(Context&, float* grad_entered, float* grad_hidden, float* grad_cell, const float* grad_y,
              const float* grad_last_cell, const float* gates, const float* cells, const float* cell,
              const float* weight, const Sequence&)>
      lstm_backward;
  /// y [T, N, H] with n = tanh(entered n + r (weight h + bias)). `gates` [T, N, 4 H] (or null) receives r, z, n and
  /// weight h + bias of n.
  Kernel<void(Context&, float* y, float* gates, const float* entered, const float* hidden, const float* weight,
              const float* bias, const Sequence&)>
      gru;
  /// As lstm_backward; `grad_sums` [T, N, 3 H] are the gradients of weight h + bias, which differ from those of
  /// `entered` in n.
  Kernel<void(Context&, float* grad_entered, float* grad_sums, float* grad_hidden, const float* grad_y,
              const float* gates, const float* y, const float* hidden, const float* weight, const Sequence&)>
      gru_backward;

  using Members = MemberList<&Recurrent::lstm, &Recurrent::lstm_backward, &Recurrent::gru, &Recurrent::gru_backward>;
};

}  // namespace tern::kernels
