#pragma once
// Channels-last convolutions by the engines of cuDNN, which proposes several for a problem, most promising first.
// Weights are [O, KH, KW, C / groups].

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// Each group is a separate call, of whole lanes; but in 16 bits groups of these channels run together, since cuDNN has
/// kernels for them (of others it takes one after the other, and longer than we do).
constexpr std::int64_t most_engine_groups = 4, engine_lanes = 8, most_together_taps = 25;
inline bool runs_together(std::int64_t channels) {
  return channels == 8 || channels == 16 || channels == 32 || channels == 64;
}
inline bool runs_together(const Problem& problem) {
  return problem.groups > 1 && bytes_of(problem.element) == 2 && problem.KH * problem.KW <= most_together_taps &&
         runs_together(problem.C / problem.groups) && runs_together(problem.O / problem.groups);
}

/// Whether this build has cuDNN.
bool has_engines();

/// Whether the factors of engines are rounded to bfloat16 if permitted: not if the multiply-adds of an element take
/// less time than its conversion. Trials ignore this rule.
inline bool rounds_factors(const Problem& problem) {
  constexpr double conversion = 325;  // multiply-adds for which bfloat16 must save time: 1.3 ps at 4 fs each, on an
                                      // H100
  const auto elements = static_cast<double>(problem.images() + problem.outputs());
  const auto multiply_adds = static_cast<double>(problem.outputs()) *
                             static_cast<double>(problem.C / problem.groups * problem.KH * problem.KW);
  return problem.precision == Precision::bf16 && has_engines() && problem.O % engine_lanes == 0 &&
         (!problem.deterministic || multiply_adds > conversion * elements);
}

/// The number of the next proposal after `plan` (-1: the first) that runs the problem with its rounding and
/// reproducibility; -1: none.
int next_engine(const Problem& problem, int plan);
/// Whether the first proposal is a Fourier transform.
bool transforms(const Problem& problem);
std::size_t engine_workspace(const Problem& problem, int plan);
void run_engine(Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace);

}  // namespace tern::cuda::convolution
