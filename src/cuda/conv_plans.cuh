#pragma once
// Convolutions by cuDNN, channels last: which engine runs which problem.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/support.cuh"

namespace tern::cuda {

/// Which of the three tensors of a convolution is computed from the other two.
enum class Half : std::uint8_t { forward, grad_x, grad_weight };

/// A convolution as cuDNN sees it. Elements of all three tensors are float, or bfloat16 when `bf16`. `x_pitch` and
/// `y_pitch` are elements from a position to the next.
struct ConvProblem {
  Half half = Half::forward;
  std::int64_t N = 0, C = 0, H = 0, W = 0, O = 0, KH = 1, KW = 1, OH = 0, OW = 0;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  std::int64_t x_pitch = 0, y_pitch = 0;
  bool bf16 = false;
  bool tensor_cores = false;  ///< float factors may be read as TF32
  bool deterministic = true;
  bool float_out = false;  ///< the computed tensor is float even when `bf16`
  bool finished = false;   ///< forward with float_out only: a bias is added and, with `relu`, max(0, .) taken
  bool relu = false;
  auto operator<=>(const ConvProblem&) const = default;
};

/// How cuDNN computes one problem, with a handle of its own thread's.
struct ConvPlan {
  std::shared_ptr<void> engine;  ///< null where cuDNN knows none, or is not there
  std::size_t workspace = 0;
};

/// Whether this build has cuDNN.
bool library_built();

/// The plan of a problem, for the calling thread. Without `deterministic`, and outside a recording, the first call
/// times cuDNN's candidates on the arrays it gets (the one that is computed is overwritten).
ConvPlan conv_plan(Context& context, const ConvProblem& problem, void* x, void* weight, void* y,
                   const float* bias = nullptr);

/// Queues the convolution on `stream`; `workspace` has plan.workspace bytes. Weights are [O, KH, KW, C / groups].
void run_conv(const ConvPlan& plan, const ConvProblem& problem, cudaStream_t stream, void* workspace, void* x,
              void* weight, void* y, const float* bias = nullptr);

}  // namespace tern::cuda
