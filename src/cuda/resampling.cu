// Elements between others along one dimension: one thread per element of the result.

#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"

namespace tern::cuda {
namespace {

using kernels::Resample;

/// in [outer, size, inner], out [outer, count, inner]. Without weights the element is copied.
template <class Index>
__global__ void resample_kernel(float* out, const float* in, const std::int64_t* index, const float* weight,
                                const __grid_constant__ Resample sizes, Index elements, Divisor<Index> inner,
                                Divisor<Index> count, FaultCell* cell) {
  begin_kernel();
  const Index step = static_cast<Index>(global_threads());
  for (auto i = static_cast<Index>(global_thread()); i < elements; i += step) {
    Index outer = i;
    const auto column = static_cast<std::int64_t>(inner.split(outer)),
               j = static_cast<std::int64_t>(count.split(outer));
    const float* const from = in + static_cast<std::int64_t>(outer) * sizes.size * sizes.inner + column;
    float sum = 0;
    for (std::int64_t k = 0; k < sizes.taps; ++k) {
      const std::int64_t place = index[j * sizes.taps + k];
      const bool bad = place < 0 || place >= sizes.size;
      if (bad) report(cell, Fault::index, place, sizes.size);
      const float value = bad ? 0.0f : from[place * sizes.inner];
      const float part = weight == nullptr ? value : __fmul_rn(value, weight[j * sizes.taps + k]);
      sum = k == 0 ? part : __fadd_rn(sum, part);
    }
    out[i] = sum;
  }
}

void resample(Context& context, float* out, const float* in, const std::int64_t* index, const float* weight,
              const Resample& sizes) {
  const std::int64_t elements = sizes.outer * sizes.count * sizes.inner;
  if (elements == 0) return;
  with_index(elements, [&](auto zero) {
    using Index = decltype(zero);
    const unsigned threads = threads_for(elements);
    launch(context, Grid(blocks_for(elements, threads), threads), resample_kernel<Index>, out, in, index, weight, sizes,
           static_cast<Index>(elements), Divisor<Index>(sizes.inner), Divisor<Index>(sizes.count), fault_cell(context));
  });
}

}  // namespace

kernels::Resampling resampling() { return {.resample = resample}; }

}  // namespace tern::cuda
