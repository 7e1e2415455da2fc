#pragma once
// The SIMD kernels under matrix products and convolutions, compiled per instruction set and chosen once at run time.
// They work on one thread and one block; their callers handle blocking, packing buffers and threads.

#include <cstdint>
#include <limits>

#include "vectorized/run.hpp"

namespace tern::vectorized {

/// c [m, n] = a [m, k] b [k, n], with an epilogue. b consists of panels of `panel_width` columns: row p of panel j is
/// at b + j * b_panel + p * b_row, with `panel_width` readable elements. Every element of c is summed in increasing k
/// by one chain of fused multiply-adds, wherever the block is cut.
template <class T>
struct Block {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0, a_column = 0;  ///< strides of a; one of them is 1
  T* tiles = nullptr;    ///< if not null, m * k elements: keeps a there, in the order in which it is read
  bool a_tiles = false;  ///< a is what another block has kept of the same m rows, or pack_tiles has made of them
  const T* b = nullptr;
  std::int64_t b_row = 0, b_panel = 0;
  const Run* runs =
      nullptr;  ///< instead of k in one run: a's rows begin at a + Run::a, b's rows at Run::b; a_column is 1
  std::int64_t run_count = 0;
  T* c = nullptr;
  std::int64_t c_row = 0;
  bool accumulate = false;         ///< start from c instead of the bias (or 0)
  const T* row_bias = nullptr;     ///< [m]
  const T* column_bias = nullptr;  ///< [n]
  bool relu = false;
  T top = std::numeric_limits<T>::infinity();  ///< with relu: what larger results become
  const T* b_next = nullptr;                   ///< panels like b's that will be read next and are prefetched; or null
  const T* a_next = nullptr;                   ///< for the kernels' own use
  std::int64_t b_next_rows = 0, c_next = 0;    ///< the same; c_next: elements from c to the part that comes next
};

template <class T>
struct GemmKernels {
  std::int64_t lanes;        ///< elements of a vector
  std::int64_t tile_rows;    ///< rows of c that are best computed together
  std::int64_t narrow_rows;  ///< the same of a c whose columns fit into one vector
  std::int64_t panel_width;  ///< a whole number of vectors

  void (*multiply)(const Block<T>&);
  /// Panels (b_row = panel_width, b_panel = k * panel_width) of b [k, n], with zeros after column n.
  void (*pack)(T* panels, const T* b, std::int64_t b_row, std::int64_t k, std::int64_t n);
  /// The same panels of a b that is stored as [n, k].
  void (*pack_transposed)(T* panels, const T* b, std::int64_t b_row, std::int64_t k, std::int64_t n);
  /// Block::tiles of an a that is stored as [k, m].
  void (*pack_tiles)(T* tiles, const T* a, std::int64_t a_column, std::int64_t m, std::int64_t k);
  /// out [columns, rows] = in [rows, columns]^T.
  void (*transpose)(T* out, std::int64_t out_row, const T* in, std::int64_t in_row, std::int64_t rows,
                    std::int64_t columns);
};

/// The kernels for the best instruction set of this processor.
template <class T>
const GemmKernels<T>& gemm_kernels();
template <>
const GemmKernels<float>& gemm_kernels<float>();
template <>
const GemmKernels<double>& gemm_kernels<double>();

/// The name of that instruction set in Highway: "AVX3" is AVX-512.
const char* gemm_target();

}  // namespace tern::vectorized
