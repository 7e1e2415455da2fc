// A matrix product written with OpenMP, in a mode of your own: checked against the reference and timed beside the other
// modes. OMP_NUM_THREADS, OMP_PROC_BIND and OMP_PLACES have their usual meaning.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <tern/tern.hpp>

using namespace tern;

// The slot's contract is in tern/kernels/dot.hpp.
static void my_matmul(Context& context, float* out, const float* a, const float* b, const kernels::Matmul& s) {
#pragma omp parallel for collapse(2) num_threads(context.threads)
  for (std::int64_t batch = 0; batch < s.batch; ++batch)
    for (std::int64_t i = 0; i < s.m; ++i) {
      float* const row = out + (batch * s.m + i) * s.n;
      std::fill_n(row, s.n, 0.F);
      for (std::int64_t l = 0; l < s.k; ++l) {
        const float left = a[batch * s.stride_a + (s.transpose_a ? l * s.m + i : i * s.k + l)];
        const float* const right = b + batch * s.stride_b + (s.transpose_b ? l : l * s.n);
        const std::int64_t step = s.transpose_b ? s.k : 1;
#pragma omp simd
        for (std::int64_t j = 0; j < s.n; ++j) row[j] += left * right[j * step];
      }
    }
}

int main() {
  Mode mine = mode("vectorized");
  mine.operators.dot.matmul = my_matmul;
  register_mode("mine", mine);
  Generator generator{1};
  const Tensor a = randn({384, 384}, generator), b = randn({384, 384}, generator);
  {
    const Device checked{"verify:mine"};  // throws if a result differs from the reference's
    op::matmul(a, b);
  }
  for (const ModeStatus& status : modes()) {  // including "mine"
    if (!status.available) continue;
    const Device device{status.name};
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      op::sum(op::matmul(a, b)).item();
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%-12s %8.3f ms\n", status.name.c_str(), best);
  }
}
