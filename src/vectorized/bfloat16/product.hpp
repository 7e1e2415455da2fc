#pragma once
// A matrix product with the kernels of kernels.hpp: the team rounds and packs both factors, then multiplies block by
// block.

#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/product.hpp"

namespace tern::vectorized::product {

class Bfloat16Product {
 public:
  Bfloat16Product() = default;
  Bfloat16Product(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels);

  /// Rough cycles on one thread.
  static double cycles(const kernels::Matmul& shape, const bfloat16::Kernels& kernels);

  /// Floats of 64-byte aligned scratch that the team shares.
  std::int64_t shared() const;
  /// Writes this member's share of the packed factors; all of it must be complete before any part runs.
  void pack(const Team& team, void* shared) const;
  /// Independent rectangles of c.
  std::int64_t parts() const { return matrices_ * row_parts_ * column_parts_; }
  void run(std::int64_t begin, std::int64_t end, const void* shared) const;

 private:
  /// op(a) or op(b): matrices of lines of k numbers.
  struct Factor {
    const float* from = nullptr;
    std::int64_t matrices = 1, matrix = 0, lines = 0, line = 0, number = 0;  ///< count and strides
    std::int64_t panels = 0;                                                 ///< of one matrix
  };
  std::int64_t packed(const Factor& factor) const;
  void cut(std::int64_t threads);
  void run_part(std::int64_t part, const void* shared) const;
  template <class Pack>
  void pack(const Team& team, const Factor& factor, std::uint16_t* out, const Pack& pack_step) const;

  Factor a_, b_;
  std::int64_t matrices_ = 1, k_ = 0, steps_ = 0, row_parts_ = 1, column_parts_ = 1;
  kernels::Activation activation_ = kernels::Activation::none;
  Arrays<float> arrays_;
  const bfloat16::Kernels* kernels_ = nullptr;
};

}  // namespace tern::vectorized::product
