#pragma once
// The tiles of attention with 16-bit elements for compute capability 9.0: a warpgroup of four warps multiplies 64 rows
// with a matrix in shared memory (wgmma), while its threads may do other work. Compiled for sm_90a only.

#include "cuda/attention/half_tiles.cuh"

namespace tern::cuda::scaled_dot_product {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TERN_WGMMA 1
#endif

// ---- matrices in shared memory ----

/// Panels of 64 columns (32 where the width is no multiple of 64), whose rows are packets of 16 bytes in an order that
/// depends on the row: a swizzle of 128 (64) bytes.
template <int Width>
struct Swizzled {
  static constexpr int columns = Width % 64 == 0 ? 64 : 32, packets = columns / 8;
  /// Of a packet, in elements.
  template <int Rows>
  static __host__ __device__ constexpr int place(int row, int column) {
    const int turn = packets == 8 ? row % 8 : row / 2 % 4;
    return column / columns * Rows * columns + row * columns + ((column % columns / 8) ^ turn) * 8;
  }
  // The descriptors that wgmma takes, but for the address.
  static constexpr std::uint64_t layout = std::uint64_t{packets == 8 ? 1u : 2u} << 62;
  static constexpr std::uint64_t eight_rows = columns * 16;  ///< bytes
  /// Rows of this matrix are rows or columns of the factor: sums run along its rows.
  static constexpr std::uint64_t along_rows = layout | (eight_rows >> 4) << 32 | std::uint64_t{1} << 16;
  /// Sums run along its columns.
  template <int Rows>
  static constexpr std::uint64_t along_columns = layout |
                                                 (eight_rows >> 4) << 32 | std::uint64_t{Rows * columns * 2 >> 4} << 16;
};

template <class T>
__device__ __forceinline__ std::uint64_t address_bits(const T* shared) {
  return (static_cast<std::uint64_t>(__cvta_generic_to_shared(shared)) & 0x3FFFF) >> 4;
}

/// Rows `first` to `first` + Rows of a matrix [count, width], with zeros beyond its end.
template <int Rows, int Width, int Threads, class T>
__device__ __forceinline__ void copy_swizzled(T* to, const T* from, int first, int count, int width,
                                              std::int64_t stride, bool packs) {
  using Layout = Swizzled<Width>;
  constexpr int per_row = Layout::packets, step = Threads / per_row, panels = Width / Layout::columns;
  static_assert(Threads % per_row == 0 && step % 8 == 0);
  const int row = static_cast<int>(threadIdx.x) / per_row, column = static_cast<int>(threadIdx.x) % per_row * 8;
  T* const place = to + Layout::template place<Rows>(row, column);
  const T* const at = from + (first + row) * stride + column;
  const int rows_left = count - first - row;
  const auto each = [&](const auto& copy) {
#pragma unroll
    for (int panel = 0; panel < panels; ++panel)
#pragma unroll
      for (int i = 0; i < (Rows + step - 1) / step; ++i) {
        if (Rows % step != 0 && row + i * step >= Rows) continue;
        const int left = width - column - panel * Layout::columns;
        const bool inside = i * step < rows_left && left > 0;
        copy(place + (panel * Rows + i * step) * Layout::columns,
             inside ? at + i * step * stride + panel * Layout::columns : from, inside, left);
      }
  };
  if (packs)
    each([](T* there, const T* source, bool inside, int) {
      copy_async<4, true>(reinterpret_cast<float*>(there), reinterpret_cast<const float*>(source), inside);
    });
  else
    each([](T* there, const T* source, bool inside, int left) {
#pragma unroll 1
      for (int part = 0; part < 8; ++part) there[part] = inside && part < left ? source[part] : T{};
    });
}

/// Makes what this thread wrote to shared memory visible to wgmma, behind a barrier.
__device__ __forceinline__ void publish_to_groups() {
#ifdef TERN_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// ---- products ----

#define TERN_FOUR(s) "+f"((s)[0]), "+f"((s)[1]), "+f"((s)[2]), "+f"((s)[3])
#define TERN_SIXTEEN(j) TERN_FOUR(sum[j]), TERN_FOUR(sum[(j) + 1]), TERN_FOUR(sum[(j) + 2]), TERN_FOUR(sum[(j) + 3])
#define TERN_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TERN_NAMES_64 TERN_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TERN_NAMES_96 TERN_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TERN_NAMES_128 TERN_NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TERN_SUMS_32 TERN_SIXTEEN(0)
#define TERN_SUMS_64 TERN_SUMS_32, TERN_SIXTEEN(4)
#define TERN_SUMS_96 TERN_SUMS_64, TERN_SIXTEEN(8)
#define TERN_SUMS_128 TERN_SUMS_96, TERN_SIXTEEN(12)

// Both factors in shared memory. `adds`: to the sum, which otherwise is overwritten. `TURNED`: whether they are
// transposed.
#define TERN_GROUP_SCORES(N, A, B, ADDS, TYPE, TURNED)                                                               \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADDS ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE \
               "." TYPE " {" TERN_NAMES_##N "}, " A ", " B ", p, 1, 1, " TURNED ";\n}\n"                             \
               : TERN_SUMS_##N                                                                                       \
               : "l"(a), "l"(b), "r"(adds))
#define TERN_GROUP_SCORES_OF(TYPE, TURNED)                                         \
  if constexpr (N == 32) TERN_GROUP_SCORES(32, "%16", "%17", "%18", TYPE, TURNED); \
  if constexpr (N == 64) TERN_GROUP_SCORES(64, "%32", "%33", "%34", TYPE, TURNED); \
  if constexpr (N == 96) TERN_GROUP_SCORES(96, "%48", "%49", "%50", TYPE, TURNED); \
  if constexpr (N == 128) TERN_GROUP_SCORES(128, "%64", "%65", "%66", TYPE, TURNED)
// The left one in registers, the right one transposed.
#define TERN_GROUP_ADD(N, A0, A1, A2, A3, B, TYPE)                                                                     \
  asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
               " {" TERN_NAMES_##N "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1, 1;\n}\n"                      \
               : TERN_SUMS_##N                                                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/// Of rows of a and b, or of columns (Turned).
template <class T, int N, bool Turned = false>
__device__ __forceinline__ void group_scores(float (&sum)[N / 8][4], std::uint64_t a, std::uint64_t b, int adds) {
#ifdef TERN_WGMMA
  if constexpr (std::is_same_v<T, BFloat16> && Turned) {
    TERN_GROUP_SCORES_OF("bf16", "1, 1");
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    TERN_GROUP_SCORES_OF("bf16", "0, 0");
  } else if constexpr (Turned) {
    TERN_GROUP_SCORES_OF("f16", "1, 1");
  } else {
    TERN_GROUP_SCORES_OF("f16", "0, 0");
  }
#endif
}

template <class T, int N>
__device__ __forceinline__ void group_add(float (&sum)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b) {
#ifdef TERN_WGMMA
  if constexpr (std::is_same_v<T, BFloat16>) {
    if constexpr (N == 32) TERN_GROUP_ADD(32, "%16", "%17", "%18", "%19", "%20", "bf16");
    if constexpr (N == 64) TERN_GROUP_ADD(64, "%32", "%33", "%34", "%35", "%36", "bf16");
    if constexpr (N == 96) TERN_GROUP_ADD(96, "%48", "%49", "%50", "%51", "%52", "bf16");
    if constexpr (N == 128) TERN_GROUP_ADD(128, "%64", "%65", "%66", "%67", "%68", "bf16");
  } else {
    if constexpr (N == 32) TERN_GROUP_ADD(32, "%16", "%17", "%18", "%19", "%20", "f16");
    if constexpr (N == 64) TERN_GROUP_ADD(64, "%32", "%33", "%34", "%35", "%36", "f16");
    if constexpr (N == 96) TERN_GROUP_ADD(96, "%48", "%49", "%50", "%51", "%52", "f16");
    if constexpr (N == 128) TERN_GROUP_ADD(128, "%64", "%65", "%66", "%67", "%68", "f16");
  }
#endif
}

/// The same for all lanes, as the compiler sees it: what depends on it needs no registers of a thread.
__device__ __forceinline__ int warp_of_block() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0); }

/// Before a product whose sums or left factor other instructions have written.
__device__ __forceinline__ void begin_products() {
#ifdef TERN_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// The products since the last call form a group.
__device__ __forceinline__ void commit_products() {
#ifdef TERN_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int newer>
__device__ __forceinline__ void await_products() {
#ifdef TERN_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(newer) : "memory");
#endif
}
/// Keeps the compiler from moving uses of these registers to the other side.
template <int N>
__device__ __forceinline__ void hold(float (&sum)[N][4]) {
#pragma unroll
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int part = 0; part < 4; ++part) asm volatile("" : "+f"(sum[j][part])::"memory");
}

/// As HalfTile with one tile, but for products that a warpgroup starts together: its warp w has the rows from 16w on.
template <class T>
struct GroupTile : HalfTile<T, 1> {
  using Base = HalfTile<T, 1>;
  template <int Columns>
  using Sums = typename Base::template Sums<Columns>;
  static constexpr int group_rows = 64;

  /// Factors of 64 rows, by sixteen columns.
  template <int Depth>
  struct Factors {
    std::uint32_t word[Depth / 16][4];
    __device__ __forceinline__ void round(Sums<Depth>& from) {
#pragma unroll
      for (int k = 0; k < Depth / 16; ++k)
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const float(&sum)[4] = from.sum[0][2 * k + part / 2];
          word[k][part] = rounded_pair<T>(sum[part % 2 * 2], sum[part % 2 * 2 + 1]);
        }
    }
  };

  /// Starts out = a b^T over `Width`: a has rows of a matrix of `Rows` rows, b is one of `Columns`.
  template <int Columns, int Width, int Rows>
  static __device__ __forceinline__ void start_scores(Sums<Columns>& out, const T* a, const T* b) {
    using Layout = Swizzled<Width>;
    const std::uint64_t from_a = Layout::along_rows | address_bits(a), from_b = Layout::along_rows | address_bits(b);
#pragma unroll
    for (int k = 0; k < Width; k += 16) {
      const int panel = k / Layout::columns, inside = k % Layout::columns * 2 >> 4;
      group_scores<T, Columns>(out.sum[0], from_a + panel * (Rows * Layout::columns * 2 >> 4) + inside,
                               from_b + panel * (Columns * Layout::columns * 2 >> 4) + inside, k > 0);
    }
    commit_products();
  }

  /// Starts out += a b, over the `Depth` rows of b.
  template <int Depth, int Width>
  static __device__ __forceinline__ void start_add(Sums<Width>& out, const Factors<Depth>& a, const T* b) {
    using Layout = Swizzled<Width>;
    const std::uint64_t from_b = Layout::template along_columns<Depth> | address_bits(b);
#pragma unroll
    for (int k = 0; k < Depth / 16; ++k)
      group_add<T, Width>(out.sum[0], a.word[k], from_b + k * (16 * Layout::columns * 2 >> 4));
    commit_products();
  }
};

}  // namespace tern::cuda::scaled_dot_product
