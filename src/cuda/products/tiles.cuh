#pragma once
// The tile shapes of our products, and the pairs of them that a backward launch may use.

#include <algorithm>
#include <type_traits>

#include "cuda/products/own.cuh"

namespace tern::cuda::products {

// Rows, columns and depth of a stage; rows and columns of a thread; resident blocks.
template <bool Tensor>
using Tile0 = Tile<32, 16, 64, 4, 4, 3, Tensor>;
template <bool Tensor>
using Tile1 = Tile<32, 32, 64, 4, 4, 3, Tensor>;
template <bool Tensor>
using Tile2 = Tile<64, 32, 64, 8, 4, 2, Tensor>;
template <bool Tensor>
using Tile3 = Tile<64, 64, 64, 8, 8, 1, Tensor>;
template <bool Tensor>
using Tile4 = Tile<128, 64, 32, 8, 8, 1, Tensor>;
template <bool Tensor>
using Tile5 = Tile<128, 128, 16, 8, 8, 1, Tensor>;

/// Whether a product with such tiles may leave room for other branches on the card.
template <class Shape>
inline constexpr bool small = Shape::rows* Shape::columns <= 64 * 32;

/// The pairs of tiles, for the weight and for x, that a backward launch may use.
template <class Weight, class Data>
struct Pair {};

/// Calls body with the tile shape of that number.
template <bool Tensor, class Body>
void with_tile(int tile, const Body& body) {
  switch (tile) {
    case 0:
      return body(std::type_identity<Tile0<Tensor>>{});
    case 1:
      return body(std::type_identity<Tile1<Tensor>>{});
    case 2:
      return body(std::type_identity<Tile2<Tensor>>{});
    case 3:
      return body(std::type_identity<Tile3<Tensor>>{});
    case 4:
      return body(std::type_identity<Tile4<Tensor>>{});
    default:
      return body(std::type_identity<Tile5<Tensor>>{});
  }
}

// What the rules know of them (tuning/sizes.cuh).
template <class Shape>
constexpr bool has_size(const tuning::TileSize& size) {
  return Shape::rows == size.rows && Shape::columns == size.columns && Shape::depth == size.depth &&
         Shape::resident == size.resident &&
         size.shared == std::max({Shape::shared_bytes(true, true), Shape::shared_bytes(true, false),
                                  Shape::shared_bytes(false, false)});
}
static_assert(has_size<Tile0<false>>(tuning::tile_sizes[0]) && has_size<Tile1<false>>(tuning::tile_sizes[1]) &&
              has_size<Tile2<false>>(tuning::tile_sizes[2]) && has_size<Tile3<false>>(tuning::tile_sizes[3]) &&
              has_size<Tile4<false>>(tuning::tile_sizes[4]) && has_size<Tile5<false>>(tuning::tile_sizes[5]));

/// Calls body with one of the compiled pairs of tiles (pair_exists); false for the others.
template <bool Tensor, class Body>
bool with_pair(int weight, int data, const Body& body) {
  switch (weight * 10 + data) {
    case 10:
      body(Pair<Tile1<Tensor>, Tile0<Tensor>>{});
      return true;
    case 11:
      body(Pair<Tile1<Tensor>, Tile1<Tensor>>{});
      return true;
    case 20:
      body(Pair<Tile2<Tensor>, Tile0<Tensor>>{});
      return true;
    case 21:
      body(Pair<Tile2<Tensor>, Tile1<Tensor>>{});
      return true;
    case 22:
      body(Pair<Tile2<Tensor>, Tile2<Tensor>>{});
      return true;
    case 31:
      body(Pair<Tile3<Tensor>, Tile1<Tensor>>{});
      return true;
    case 32:
      body(Pair<Tile3<Tensor>, Tile2<Tensor>>{});
      return true;
    case 33:
      body(Pair<Tile3<Tensor>, Tile3<Tensor>>{});
      return true;
    case 44:
      body(Pair<Tile4<Tensor>, Tile4<Tensor>>{});
      return true;
    default:
      return false;
  }
}

}  // namespace tern::cuda::products
