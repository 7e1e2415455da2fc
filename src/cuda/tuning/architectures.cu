#include "cuda/tuning/costs.cuh"
#include "cuda/tuning/sm90.cuh"

namespace tern::cuda::tuning {

const char* name_of(Rule rule) { return rule == Rule::fitted ? "fitted" : "plain"; }

// One file per architecture that was measured.
const Costs* fitted_costs(int capability) { return capability == 90 ? &sm90 : nullptr; }

// The rates of NVIDIA's architecture papers.
Figures figures_of(int capability) {
  Figures of{.capability = capability};
  const int generation = capability / 10;
  of.multiply_adds = capability == 75 || capability == 80 ? 64 : 128;
  // Data centre's cards have wider tensor cores than others; kernels use those of doubles from 9.0 on.
  of.doubles = capability == 90 || generation == 10 ? 128 : 2;
  of.tf32 = capability == 80 ? 512 : capability == 90 || generation == 10 ? 1024 : 128;
  return of;
}

}  // namespace tern::cuda::tuning
