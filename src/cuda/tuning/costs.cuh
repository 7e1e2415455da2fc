#pragma once
// What a block of our own kernels takes, for the rules that cut their work. An architecture that was measured has a
// file of costs (sm90.cuh), which benchmarks/fit_costs writes. For every other one they are arithmetic on what is known
// of the card (plain.cu).

#include <cstddef>
#include <cstdint>

#include "tern/core/member_list.hpp"
#include "tern/kernels/context.hpp"

namespace tern::cuda::tuning {

// Microseconds. `work` is a block's share of a busy multiprocessor, `wait` its least time on an idle card.

/// A tile of a product: per 1000 k, and once.
struct Block {
  float work_k, work_once, wait_k, wait_once;
};

constexpr int tiles = 6, forward_slices = 8, backward_slices = 8;  // shapes: sizes.cuh

/// Tiles of tiles.cuh: the cost of a split sum, that of each of its parts, and the fraction of all multiprocessors that
/// clusters of 1, 2, 4 and 8 blocks reach.
struct Tiles {
  Block of[tiles];
  float split, part;
  float reached[4];
};

/// Shapes of sliced_shapes.cuh: blocks that a multiprocessor holds, the fraction of a wait that is not hidden, and the
/// fraction that each further round of blocks costs.
struct Slices {
  Block of[forward_slices];
  float resident[forward_slices];
  float exposed, again;
};
/// Pairs: of the weight's gradient, whose sums run over the rows, and of x's, whose sums run over the outputs.
struct SlicePairs {
  Block weight[backward_slices], data[backward_slices];
  float resident[backward_slices];
  float exposed, again;
};

/// The forward pass of small convolutions on tensor cores. Work: once, per 1000 packs that a block copies, per 100
/// slices of a tile, per 8 columns in those, per 100 columns of 8 that splits add, and that a tile writes. Wait: the
/// same, per ten slices and columns in a row.
struct ForwardColumns {
  float once, packs, slices, columns, splits, tiles;
  using Members = MemberList<&ForwardColumns::once, &ForwardColumns::packs, &ForwardColumns::slices,
                             &ForwardColumns::columns, &ForwardColumns::splits, &ForwardColumns::tiles>;
};
/// The same of the weight's gradient, which also waits per further round of images.
struct GradWeightColumns {
  float once, packs, slices, columns, splits, tiles, rounds = 0;
  using Members = MemberList<&GradWeightColumns::once, &GradWeightColumns::packs, &GradWeightColumns::slices,
                             &GradWeightColumns::columns, &GradWeightColumns::splits, &GradWeightColumns::tiles,
                             &GradWeightColumns::rounds>;
};
/// The gradient of x. Work: once, per 1000 weights and per 1000 elements of y's gradient that a block copies, per 1000
/// multiplications, per 1000 sums of 8 adjacent elements. Wait: the same of a warp, the last two per 100.
struct GradXColumns {
  float once, weights, elements, products, sums;
  using Members = MemberList<&GradXColumns::once, &GradXColumns::weights, &GradXColumns::elements,
                             &GradXColumns::products, &GradXColumns::sums>;
};
/// `exposed`: the fraction of a wait that other blocks do not hide.
template <class Columns>
struct Cut {
  Columns work, wait;
  float exposed;
};

/// The figures of a card: `strict` with factors as they are (doubles on tensor cores, or multiply-adds), `rounded` with
/// factors rounded to TF32.
struct Costs {
  Tiles strict_tiles, rounded_tiles, rounded_backward_tiles;
  Slices strict_slices, rounded_slices;
  SlicePairs strict_pairs, rounded_pairs;
  Cut<ForwardColumns> strict_forward, rounded_forward;
  Cut<GradWeightColumns> strict_grad_weight, rounded_grad_weight;
  Cut<GradXColumns> strict_grad_x, rounded_grad_x;
  float strict_adding, rounded_adding;  ///< to add a million partial sums of the weight's gradient
};

/// Figures times counts, in the order of the columns.
template <class Columns>
float sum_of(const Columns& figures, const Columns& counts) {
  float sum = 0;
  [&]<auto... member>(MemberList<member...>) { ((sum += figures.*member * counts.*member), ...); }
  (typename Columns::Members{});
  return sum;
}

/// What is known of a card without measuring anything on it.
struct Figures {
  int capability = 0;  ///< compute capability, times ten
  int multiprocessors = 1;
  std::size_t shared_per_block = 48 * 1024;  ///< the most dynamic shared memory that a block may request
  bool clusters = false;                     ///< whether blocks may share a sum
  float clock = 1000;                        ///< cycles per microsecond
  float multiply_adds = 64;                  ///< float32, per cycle and multiprocessor
  float doubles = 2;                         ///< the same of doubles; above 2: by tensor cores, which kernels use
  float tf32 = 64;                           ///< the same of TF32
  float bytes = 64;                          ///< that reach a multiprocessor from the cache of the card per cycle
};
/// Of a card with this compute capability (times ten): the rates of its architecture. The caller knows the rest.
Figures figures_of(int capability);
/// Of the thread's current card.
const Figures& figures();

/// Where the costs come from. Part of every problem, because a cut decides the order of a sum.
enum class Rule : std::uint8_t { fitted, plain };
/// The rule of the thread's current card: `fitted` if there is a file for its architecture. "cut_rule" forces one.
Rule rule_of(const Context& context);
/// To be called where a problem is cut: reports the rule if one is forced.
void took_rule(const Context& context, Rule rule);
const char* name_of(Rule rule);

/// The costs of the thread's current card.
const Costs& costs(Rule rule);
/// Those of the file for an architecture; null if there is none.
const Costs* fitted_costs(int capability);
/// By arithmetic on the card's figures.
Costs plain_costs(const Figures& figures);

}  // namespace tern::cuda::tuning
