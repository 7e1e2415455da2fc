#pragma once
// A step of a recurrent layer for some rows of the batch and the hidden units of one panel.

#include <cstdint>

namespace tern::vectorized {

/// Where a kernel works: the rows [begin, end) and `count` units from `first` on, of `width`.
struct StepPart {
  std::int64_t begin, end, first, count, width;
};

/// Arrays of a step, row-major; null: zeros, or not wanted.
struct LstmStep {
  float *y, *cell_out, *gates, *cells;
  const float *entered, *hidden, *cell, *bias;
};
struct GruStep {
  float *y, *gates;
  const float *entered, *hidden, *bias;
};
/// Backwards: `later` are the gradients of the sums of the step behind, `carry` what that step hands on by itself.
struct LstmBackStep {
  float *grad_sums, *carry;
  const float *grad_y, *later, *gates, *cells, *cell_before;
  bool first_carry;  ///< nothing is handed on yet
};
struct GruBackStep {
  float *grad_entered, *grad_sums, *carry;
  const float *grad_y, *later, *gates, *before;
};

struct RecurrentKernels {
  std::int64_t units;       ///< of a panel forward
  std::int64_t back_units;  ///< and backward
  /// A panel for the products of a state with `gates` blocks of rows: to [width][gates][units], zeros behind the last.
  void (*pack)(float* to, const float* weight, int gates, const StepPart&);
  /// A panel for the products of gradients with the weight: to [rows][back_units].
  void (*pack_back)(float* to, const float* weight, std::int64_t rows, const StepPart&);
  void (*lstm)(const LstmStep&, const float* panel, const StepPart&);
  void (*gru)(const GruStep&, const float* panel, const StepPart&);
  void (*lstm_back)(const LstmBackStep&, const float* panel, const StepPart&);
  void (*gru_back)(const GruBackStep&, const float* panel, const StepPart&);
  /// out (+)= later weight: the gradient of the state before the first step.
  void (*leave)(float* out, const float* later, std::int64_t rows, bool adds, const float* panel, const StepPart&);
};

const RecurrentKernels& recurrent_kernels();

}  // namespace tern::vectorized
