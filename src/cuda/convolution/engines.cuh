#pragma once
// Convolutions channels last by the engines of cuDNN, of which it proposes several for a problem, the most promising
// first. Weights are [O, KH, KW, C / groups].

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// Each group is a call of its own, of whole lanes.
constexpr std::int64_t most_engine_groups = 4, engine_lanes = 8;

/// Whether this build has cuDNN.
bool has_engines();

/// The number of the first proposal behind `plan` (-1: of all) that runs the problem and rounds and repeats as it
/// says; -1: none.
int next_engine(const Problem& problem, int plan);
std::size_t engine_workspace(const Problem& problem, int plan);
void run_engine(const Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace);

}  // namespace tern::cuda::convolution
