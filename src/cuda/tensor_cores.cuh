#pragma once
// The tensor cores' multiply-add, for cards with compute capability 8.0 and later.

#include <cstdint>
#include <type_traits>

namespace tern::cuda {

/// sum += a b, 16 x 8 from 16 x 8 and 8 x 8 over the warp. The multiplication reads the upper 19 bits of each float.
/// For lane l with g = l / 4 and t = l % 4: a has (row, k) = (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), b has (k,
/// column) = (t, g), (t + 4, g), and the sum (row, column) = (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
__device__ __forceinline__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// The same for doubles, in which products of floats are exact. For compute capability 9.0 and later.
__device__ __forceinline__ void multiply_add(double (&sum)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#endif
}

/// body(row, column, one, next) for the lane's sums in adjacent columns: M x N of those 16 x 8.
template <int M, int N, class Sum, class Body>
__device__ __forceinline__ void each_pair(const Sum (&sums)[M][N][4], int lane, const Body& body) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        body(m * 16 + half * 8 + lane / 4, n * 8 + lane % 4 * 2, sums[m][n][2 * half], sums[m][n][2 * half + 1]);
}

/// Rounds to the nearest TF32.
__device__ __forceinline__ float rounded_tf32(float value) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  value = __uint_as_float(rounded);
#endif
  return value;
}

/// The format in which they multiply floats: doubles, in which products of floats are exact, or TF32: rounded to
/// nearest or (`Rounds` is false) truncated by the multiplication, which reads only the upper bits.
template <bool Doubles, bool Rounds = true>
struct TensorCores {
  using Sum = std::conditional_t<Doubles, double, float>;
  using Element = std::conditional_t<Doubles, double, std::uint32_t>;
  static __device__ __forceinline__ Element element(float value) {
    if constexpr (Doubles)
      return value;
    else
      return __float_as_uint(Rounds ? rounded_tf32(value) : value);
  }
};

}  // namespace tern::cuda
