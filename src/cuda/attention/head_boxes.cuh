#pragma once
// The rows of heads as the copy engine brings them: a box has 64 rows of a panel (Swizzled), with zeros beyond the last
// row and the last column.

#include "cuda/attention/group_tiles.cuh"
#include "cuda/attention/sizes.cuh"
#include "cuda/copy_engine.cuh"

namespace tern::cuda::scaled_dot_product {

using namespace copy_engine;

inline constexpr int box_rows = 64;

/// The boxes of an array of `rows` rows a head; false: the engine cannot copy them.
template <int Width, class T>
bool encode_boxes(CUtensorMap& map, const T* array, const kernels::HeadStrides& strides, int rows, int width,
                  const Sizes& sizes) {
  if (encoders().tiled == nullptr || (strides.row <= 0 && rows > 1)) return false;
  const cuuint64_t row = static_cast<cuuint64_t>(width) * sizeof(T);
  cuuint64_t counts[5]{static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(rows)}, apart[4];
  apart[0] = rows > 1 ? static_cast<cuuint64_t>(strides.row) * sizeof(T) : row;
  const std::int64_t heads[3]{sizes.inner, sizes.middle, sizes.heads / sizes.inner / sizes.middle};
  const std::int64_t steps[3]{strides.inner, strides.middle, strides.outer};
  for (int i = 0; i < 3; ++i) {  // heads that lie in one place are one, see HeadPlace
    const bool moves = heads[i] > 1 && steps[i] != 0;
    counts[2 + i] = moves ? static_cast<cuuint64_t>(heads[i]) : 1;
    apart[1 + i] = moves ? static_cast<cuuint64_t>(steps[i]) * sizeof(T) : row;
  }
  const cuuint32_t box[5]{Swizzled<Width>::columns, box_rows, 1, 1, 1}, ones[5]{1, 1, 1, 1, 1};
  return encoders().tiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 5, const_cast<T*>(array), counts, apart, box, ones,
                          CU_TENSOR_MAP_INTERLEAVE_NONE,
                          Swizzled<Width>::columns == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// A head among the boxes of an array.
struct HeadPlace {
  int inner, middle, outer;

  __device__ __forceinline__ HeadPlace(const Sizes& sizes, const kernels::HeadStrides& strides, int head) {
    const int rest = head / sizes.inner;
    inner = strides.inner != 0 ? head % sizes.inner : 0;
    middle = strides.middle != 0 ? rest % sizes.middle : 0;
    outer = strides.outer != 0 ? rest / sizes.middle : 0;
  }
};

/// The description of boxes will be read.
__device__ __forceinline__ void prefetch(const CUtensorMap& map) {
#ifdef TERN_WGMMA
  fetch_map(map);
#endif
}

/// For one thread: requests rows `first` to `first` + Rows of a head, which come where copy_swizzled puts them.
template <int Rows, int Width, class T>
__device__ __forceinline__ void request_rows(T* to, const CUtensorMap& map, int first, const HeadPlace& head,
                                             std::uint64_t* barrier) {
#ifdef TERN_WGMMA
  constexpr int columns = Swizzled<Width>::columns;
#pragma unroll
  for (int panel = 0; panel < Width / columns; ++panel)
#pragma unroll
    for (int row = 0; row < Rows; row += box_rows)
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
          "%5, %6}], [%7];" ::"r"(shared_address(to + (panel * Rows + row) * columns)),
          "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(panel * columns), "r"(first + row), "r"(head.inner),
          "r"(head.middle), "r"(head.outer), "r"(shared_address(barrier))
          : "memory");
#endif
}

}  // namespace tern::cuda::scaled_dot_product
