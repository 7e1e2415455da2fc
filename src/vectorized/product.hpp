#pragma once
// A whole matrix product with the kernels of gemm.hpp: blocking, packing and the division into parts for threads.

#include <cstdint>

#include "kernels/choice.hpp"
#include "tern/kernels/context.hpp"
#include "tern/kernels/dot.hpp"
#include "vectorized/clip.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized {
struct Team;
}
namespace tern::vectorized::bfloat16 {
struct Kernels;
}

namespace tern::vectorized::product {

/// c[i] = op(a[i]) op(b[i]) for i in [0, batch), see kernels::Matmul, with an epilogue: everything that a decision
/// about it reads.
struct Problem {
  kernels::Matmul shape;
  kernels::Activation activation = kernels::Activation::none;  ///< relu and relu6; others are left to the caller
  Precision precision = Precision::strict;
  int threads = 1;
};

template <class T>
struct Arrays {
  T* c = nullptr;
  const T *a = nullptr, *b = nullptr;
  const T* column_bias = nullptr;  ///< [n] or null
};

/// Rows and columns of c, and a range of k.
template <class T>
struct Part {
  const T *a, *b;
  T* c;
  std::int64_t m, n, k, first_k;
  const T* bias;
};

template <class T>
class Plan;

/// Algorithms of one kind give the same bits: a chain along k for every element, vectors along k, tiles of bfloat16
/// factors.
enum class Sums : std::uint8_t { chains, vectors, tiles };

/// Costs are rough cycles on one thread.
template <class T>
struct Algorithm : kernels::Algorithm<Problem, Arrays<T>> {
  void (Plan<T>::*multiply)(const Part<T>&, T* scratch) const;  ///< null: for tiles, which have their own parts
  Sums sums = Sums::chains;
  bool transposes = false;
  const bfloat16::Kernels* (*kernels)() = nullptr;  ///< of tiles
};

template <class T>
using Candidates = kernels::Candidates<Problem, Arrays<T>>;

/// The algorithms that may compute a problem, all with the same bits, and a rough cost on one thread.
template <class T>
struct Choice {
  Candidates<T> algorithms;
  double nanoseconds = 0;
};
/// The one that is forced for `decision` if it fits, else those of the cheapest one's kind.
template <class T>
Choice<T> choose(const Context& context, const char* decision, const Problem& problem);

class Bfloat16Product;

/// How one product is computed: cut into parts, by the cheapest one of `algorithms` for them. Every element's sum runs
/// in an order that follows from the shape only; `threads` only decides where the result is cut.
template <class T>
class Plan {
 public:
  Plan(const Problem& problem, const Arrays<T>& arrays, Candidates<T> algorithms);
  /// The name of the chosen algorithm.
  const char* algorithm() const { return algorithm_->name; }
  /// Whether every element is one chain along k.
  bool sums_in_chains() const { return algorithm_->sums == Sums::chains && slices_ == 1 && chain_ >= problem_.shape.k; }

  /// Elements of 64-byte aligned scratch: for each running thread, and for all of them together.
  std::int64_t scratch() const { return packed_ + transposed_ + later_ + tiles_; }
  std::int64_t shared() const;

  /// If an algorithm packs for the whole team: this member's share, complete before any part runs.
  bool packs_first() const { return algorithm_->sums == Sums::tiles; }
  void pack(const Team& team, T* shared) const;

  /// Independent parts; any thread may run any of them.
  std::int64_t parts() const;
  void run(std::int64_t begin, std::int64_t end, T* scratch, T* shared) const;

  /// A product of few elements over a long k is computed in slices of k whose results, in `shared`, are added after all
  /// parts have run.
  void add(const T* shared) const;

  void run_panels(const Part<T>& part, T* scratch) const;
  void run_transposed(const Part<T>& part, T* scratch) const;
  void run_dots(const Part<T>& part, T* scratch) const;

 private:
  std::int64_t size() const { return problem_.shape.batch * problem_.shape.m * problem_.shape.n; }
  /// The stride of c^T and of a later chain; not a power of two, whose rows would collide in the cache.
  std::int64_t scratch_row() const { return group_columns_ + 16; }
  /// Whether a part of m rows uses b in place: it reads it once.
  bool in_place(std::int64_t m) const;
  /// Whether a part of so many rows and columns copies the tiles of a into scratch, for all blocks of columns.
  bool keeps_tiles(std::int64_t rows, std::int64_t columns) const;
  Bfloat16Product tiles() const;
  void run_part(std::int64_t part, T* scratch, T* partials) const;
  /// One group of c, chain by chain; multiply(block, first) gets the block of k that begins at `first`.
  template <class Multiply>
  void run_chains(Block<T> block, std::int64_t k, bool clip, T* later, const Multiply& multiply) const;

  /// The columns of `group`, which begin at `column`, for k from `from` on.
  void multiply_group(const Part<T>& part, Block<T> group, std::int64_t column, std::int64_t from, T* packed) const;

  Problem problem_;
  Arrays<T> arrays_;
  const Algorithm<T>* algorithm_ = nullptr;
  std::int64_t slices_ = 1, row_parts_ = 1, column_parts_ = 1;
  std::int64_t block_k_ = 1, block_columns_ = 1;
  std::int64_t group_rows_ = 1, group_columns_ = 1;  ///< of c, for which the tiles of a are kept
  std::int64_t chain_ = 1;                           ///< products that are added in one chain
  std::int64_t packed_ = 0, transposed_ = 0;  ///< elements of scratch; also of a chain behind the first, of tiles
  std::int64_t later_ = 0, tiles_ = 0;
};

}  // namespace tern::vectorized::product
