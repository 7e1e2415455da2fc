// A matrix product written with OpenMP, in a mode of your own: checked against the reference and timed beside the other
// modes. OMP_NUM_THREADS, OMP_PROC_BIND and OMP_PLACES hold for it. The slot's contract: tern/kernels/dot.hpp.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <tern/tern.hpp>

using namespace tern;
static void my_matmul(Context& context, float* out, const float* a, const float* b, const kernels::Matmul& s) {
#pragma omp parallel for num_threads(context.threads)
  for (std::int64_t row = 0; row < s.batch * s.m; ++row) {
    const std::int64_t batch = row / s.m, i = row % s.m, step = s.transpose_b ? s.k : 1;
    std::fill_n(out + row * s.n, s.n, 0.F);
    for (std::int64_t l = 0; l < s.k; ++l) {
      const float left = a[batch * s.stride_a + (s.transpose_a ? l * s.m + i : i * s.k + l)];
      const float* const right = b + batch * s.stride_b + (s.transpose_b ? l : l * s.n);
#pragma omp simd
      for (std::int64_t j = 0; j < s.n; ++j) out[row * s.n + j] += left * right[j * step];
    }
  }
}

int main() {
  Mode mine = mode("vectorized");
  mine.operators.dot.matmul = my_matmul;
  register_mode("mine", mine);
  Generator generator{1};
  const Tensor a = randn({384, 384}, generator), b = randn({384, 384}, generator);
  for (const char* name : {"verify:mine", "sequential", "vectorized", "mine"}) {  // verify: throws where results differ
    const Device device{name};
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double start = omp_get_wtime();
      op::sum(op::matmul(a, b)).item();
      best = std::min(best, omp_get_wtime() - start);
    }
    std::printf("%-12s %8.3f ms\n", name, 1e3 * best);
  }
}
