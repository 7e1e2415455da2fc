// Stands for conv_plans.cu in a build without cuDNN: what is channels last runs on our own implicit products.

#include "cuda/conv_plans.cuh"

namespace tern::cuda {

bool library_built() { return false; }

ConvPlan conv_plan(Context&, const ConvProblem&, void*, void*, void*, const float*) { return {}; }

void run_conv(const ConvPlan&, const ConvProblem& problem, cudaStream_t, void*, void*, void*, void*, const float*) {
  throw Error(message("cuda: no kernel of ours runs a convolution of ", problem.C, " to ", problem.O,
                      " channels, channels last, on ", problem.N, " images; split the batch, or build with cuDNN"));
}

}  // namespace tern::cuda
