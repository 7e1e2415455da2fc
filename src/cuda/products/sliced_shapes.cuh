#pragma once
// The shapes of sliced products.

#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda/products/sliced.cuh"
#include "cuda/products/slices.cuh"

namespace tern::cuda::products {

// Rows and columns of a tile, adjacent tiles, warps per tile, slices per warp.
template <bool Doubles>
using ForwardShapes =
    std::tuple<Sliced<16, 16, 1, 16, 1, Doubles>, Sliced<16, 16, 1, 16, 4, Doubles>, Sliced<16, 16, 1, 8, 2, Doubles>,
               Sliced<16, 32, 1, 8, 2, Doubles>, Sliced<32, 32, 1, 16, 1, Doubles>, Sliced<32, 32, 1, 8, 2, Doubles>,
               Sliced<16, 32, 2, 4, 2, Doubles>, Sliced<32, 32, 4, 4, 1, Doubles>>;

/// Tiles of the weight's gradient, and of x's, in one launch.
template <class Weight, class Data>
struct SlicedPair {
  using weight = Weight;
  using data = Data;
  static_assert(Weight::threads == Data::threads);
};
template <bool Doubles>
using BackwardShapes = std::tuple<SlicedPair<Sliced<16, 32, 1, 8, 1, Doubles>, Sliced<16, 16, 1, 8, 2, Doubles>>,
                                  SlicedPair<Sliced<16, 32, 1, 8, 1, Doubles>, Sliced<16, 32, 1, 8, 2, Doubles>>,
                                  SlicedPair<Sliced<16, 32, 2, 4, 1, Doubles>, Sliced<16, 32, 1, 8, 2, Doubles>>,
                                  SlicedPair<Sliced<16, 32, 4, 2, 1, Doubles>, Sliced<16, 16, 1, 8, 2, Doubles>>,
                                  SlicedPair<Sliced<16, 32, 1, 16, 1, Doubles>, Sliced<16, 16, 1, 16, 1, Doubles>>,
                                  SlicedPair<Sliced<32, 32, 1, 8, 1, Doubles>, Sliced<16, 32, 1, 8, 2, Doubles>>,
                                  SlicedPair<Sliced<32, 32, 2, 4, 1, Doubles>, Sliced<16, 32, 1, 8, 2, Doubles>>,
                                  SlicedPair<Sliced<32, 32, 4, 2, 1, Doubles>, Sliced<16, 32, 1, 8, 2, Doubles>>>;

/// Calls body(std::type_identity<Shape>{}) with the shape of that number.
template <class Shapes, class Body>
void with_slices(int number, const Body& body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((static_cast<int>(I) == number ? body(std::type_identity<std::tuple_element_t<I, Shapes>>{}) : void()), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Shapes>>{});
}

// What the rules know of them (tuning/sizes.cuh).
template <class Shape>
constexpr bool has_size(const tuning::SliceSize& size) {
  return Shape::rows == size.rows && Shape::columns == size.columns && Shape::beside == size.beside &&
         Shape::warps == size.warps && Shape::slices == size.slices;
}
template <class Forward, class Backward>
constexpr bool have_sizes() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return (has_size<std::tuple_element_t<I, Forward>>(tuning::forward_sizes[I]) && ...) &&
           (has_size<typename std::tuple_element_t<I, Backward>::weight>(tuning::weight_sizes[I]) && ...) &&
           (has_size<typename std::tuple_element_t<I, Backward>::data>(tuning::data_sizes[I]) && ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Forward>>{});
}
static_assert(have_sizes<ForwardShapes<true>, BackwardShapes<true>>());
static_assert(std::tuple_size_v<ForwardShapes<true>> == tuning::forward_slices);
static_assert(std::tuple_size_v<BackwardShapes<true>> == tuning::backward_slices);

}  // namespace tern::cuda::products
