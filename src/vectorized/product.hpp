#pragma once
// A whole matrix product over the kernels of gemm.hpp: blocking, packing and the cut into parts for threads.

#include <cstdint>
#include <string_view>

#include "tern/kernels/dot.hpp"

namespace tern::vectorized {

/// c[i] = op(a[i]) op(b[i]) for i in [0, batch), see kernels::Matmul, with an epilogue.
template <class T>
struct Product {
  T* c = nullptr;
  const T* a = nullptr;
  const T* b = nullptr;
  kernels::Matmul shape;
  const T* column_bias = nullptr;  ///< [n] or null
  bool relu = false;
};

/// How a product is computed. Every element's sum runs in an order that follows from the shape alone; `threads` only
/// decides where the result is cut.
template <class T>
class Plan {
 public:
  /// The way called `forced` where it fits; empty: the cheapest one.
  Plan(const Product<T>& product, int threads, std::string_view forced = {});
  /// The name of the way that it takes.
  const char* way() const;

  /// Independent parts; any thread may run any of them.
  std::int64_t parts() const { return product_.shape.batch * slices_ * row_parts_ * column_parts_; }
  /// Elements of 64-byte aligned scratch that a running part needs.
  std::int64_t scratch() const { return packed_ + turned_; }
  void run(std::int64_t part, T* scratch, T* partials) const;

  /// A product of few elements over a long k is computed in slices of k whose results are added at the end: elements of
  /// `partials` (0: no slices), and the adding, after all parts have run.
  std::int64_t partials() const { return slices_ == 1 ? 0 : slices_ * size(); }
  void add(const T* partials) const;

  /// A rough cost on one thread.
  double nanoseconds() const;

 private:
  enum class Way : std::uint8_t {
    panels,  ///< of op(b)
    turned,  ///< c^T = op(b)^T op(a)^T with panels of op(a)^T: where that packs less, or wastes fewer lanes
    dots     ///< vectors along k
  };
  static const char* name_of(Way way);
  /// One part: rows and columns of c, and a range of k.
  struct Part {
    const T *a, *b;
    T* c;
    std::int64_t m, n, k, first_k;
    const T* bias;
  };

  std::int64_t size() const { return product_.shape.batch * product_.shape.m * product_.shape.n; }
  /// The stride of c^T; not a power of two, whose rows would meet in the cache.
  std::int64_t turned_row() const { return block_columns_ + 16; }
  /// Whether a part of m rows uses b where it lies: it reads it once.
  bool in_place(std::int64_t m) const;
  double cost(Way way, std::int64_t m, std::int64_t n) const;
  void run_panels(const Part& part, T* packed) const;
  void run_turned(const Part& part, T* packed, T* turned) const;

  Product<T> product_;
  Way way_ = Way::panels;
  std::int64_t slices_ = 1, row_parts_ = 1, column_parts_ = 1;
  std::int64_t block_k_ = 1, block_columns_ = 1;
  std::int64_t packed_ = 0, turned_ = 0;
};

}  // namespace tern::vectorized
