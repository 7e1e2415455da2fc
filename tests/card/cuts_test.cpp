// How the cuda mode cuts its own products and small convolutions: both rules, on many sizes and cards.

#include "cuda/products/cuts.cuh"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "cuda/convolution/direct_cuts.cuh"
#include "support/catch.hpp"

using namespace tern;
using namespace tern::cuda;
using tuning::Costs;
using tuning::Figures;

namespace {

/// Cards with little and much of everything.
std::vector<Figures> cards() {
  struct Known {
    int capability, multiprocessors;
    std::size_t kibibytes;
    float clock;
  };
  std::vector<Figures> all;
  for (const Known& card :
       {Known{75, 40, 64, 1590}, Known{80, 108, 163, 1410}, Known{86, 28, 99, 1777}, Known{89, 128, 99, 2520},
        Known{90, 132, 227, 1755}, Known{90, 114, 227, 1755}, Known{100, 148, 227, 1965}, Known{120, 170, 99, 2407}}) {
    Figures on = tuning::figures_of(card.capability);
    on.multiprocessors = card.multiprocessors;
    on.shared_per_block = card.kibibytes * 1024;
    on.clusters = card.capability >= 90;
    on.clock = card.clock;
    all.push_back(on);
  }
  return all;
}
Figures h100() { return cards()[4]; }

/// The costs that either rule would take on a card.
std::vector<Costs> costs_on(const Figures& on) {
  std::vector<Costs> all{tuning::plain_costs(on)};
  if (const Costs* const fitted = tuning::fitted_costs(on.capability)) all.push_back(*fitted);
  return all;
}

kernels::Conv2d convolution_of(std::int64_t N, std::int64_t C, std::int64_t O, std::int64_t H, std::int64_t K,
                               std::int64_t pad) {
  kernels::Conv2d of{.N = N, .C = C, .H = H, .W = H, .O = O, .KH = K, .KW = K};
  of.OH = of.OW = H + 2 * pad - K + 1;
  of.pad_h = of.pad_w = pad;
  return of;
}

template <class Use>
void each_convolution(const Use& use) {
  for (const std::int64_t N : {1, 3, 32, 512})
    for (const std::int64_t C : {1, 6, 20})
      for (const std::int64_t O : {5, 16, 50, 64})
        for (const std::int64_t H : {8, 14, 28})
          for (const std::int64_t K : {3, 5}) use(convolution_of(N, C, O, H, K, N % 2 == 0 ? K / 2 : 0));
}

template <class Use>
void each_product(const Use& use) {
  for (const std::int64_t m : {1, 8, 64, 100, 512, 4096})
    for (const std::int64_t n : {10, 84, 256, 784})
      for (const std::int64_t k : {24, 120, 784, 4096}) use(products::Sizes{.m = m, .n = n, .k = k});
}

/// A guess by `costs` of the cut that `chosen` would take, over the least of all.
template <class Find>
float behind(const Costs& costs, const Costs& chosen, const Find& find) {
  tuning::Watch watch;
  find(costs);
  const std::vector<float> guesses = watch.guesses;
  if (guesses.empty()) return 1;  // no cut fits
  find(chosen);
  const auto at = std::min_element(watch.guesses.begin(), watch.guesses.end()) - watch.guesses.begin();
  return guesses[static_cast<std::size_t>(at)] / *std::min_element(guesses.begin(), guesses.end());
}

void check_near(const char* what, std::vector<float> ratios, float median, float most) {
  INFO(what);
  std::sort(ratios.begin(), ratios.end());
  CHECK(ratios[ratios.size() / 2] <= median);
  CHECK(ratios[ratios.size() * 9 / 10] <= most);
}

}  // namespace

TEST_CASE("cuts: tiles of products fit the card", "[card]") {
  for (const Figures& on : cards())
    for (const Costs& costs : costs_on(on))
      each_product([&](products::Sizes sizes) {
        for (const bool by_rows : {true, false}) {
          sizes.by_rows = by_rows;
          const products::Tiling product = find_tiling(on, costs.strict_tiles, sizes);
          REQUIRE(product.cost < std::numeric_limits<float>::max());
          CHECK(product.cost > 0);
          CHECK(products::tile_exists(on, product.tile, by_rows));
          CHECK(tuning::tile_sizes[product.tile].shared <= on.shared_per_block);
          CHECK(product.split <= (on.clusters ? products::largest_split : 1));
        }
        const products::Tiling pair = find_backward_tiling(on, costs.rounded_backward_tiles, sizes);
        CHECK(products::pair_exists(on, pair.tile, pair.tile_data));
        CHECK(std::max(pair.split, pair.split_data) <= (on.clusters ? products::largest_split : 1));
      });
}

TEST_CASE("cuts: convolutions fit the card and cover the sizes", "[card]") {
  for (const Figures& on : cards())
    for (const Costs& costs : costs_on(on))
      for (const bool rounded : {false, true})
        each_convolution([&](const kernels::Conv2d& sizes) {
          INFO(on.capability << ", " << sizes.N << ' ' << sizes.C << ' ' << sizes.O << ' ' << sizes.H << ' '
                             << sizes.KH);
          const std::size_t limit = convolution::shared_limit(on);
          const convolution::ForwardCut forward = convolution::find_forward_cut(on, costs, sizes, rounded);
          if (forward.columns > 0) {
            CHECK(forward.shared <= limit);
            CHECK((forward.splits == 1 || forward.splits * forward.tiles <= convolution::tensor_warps));
          }
          const convolution::GradWeightCut weight = convolution::find_grad_weight_cut(on, costs, sizes, rounded);
          if (weight.columns > 0) {
            CHECK(weight.shared <= limit);
            CHECK(std::int64_t{weight.slices} * weight.images_per_slice >= sizes.N);
            CHECK(std::int64_t{weight.slices - 1} * weight.images_per_slice < sizes.N);
            CHECK(weight.together <= weight.images_per_slice);
            CHECK(weight.tiles * weight.splits <= weight.warps);
            CHECK(weight.tiles * convolution::tensor_rows >= weight.channels * sizes.KH * sizes.KW);
          }
          const convolution::GradXCut x = convolution::find_grad_x_cut(on, costs, sizes, rounded);
          if (x.channels > 0) {
            CHECK(x.shared <= limit);
            CHECK(x.channels <= sizes.C);
          }
          // An H100 has room for all of the smaller planes.
          if (on.capability == 90 && sizes.H <= 14) {
            CHECK(forward.columns > 0);
            CHECK(weight.columns > 0);
            CHECK(x.channels > 0);
          }
        });
}

TEST_CASE("cuts: the plain rule chooses much as the fitted one", "[card]") {
  const Figures on = h100();
  const Costs fitted = *tuning::fitted_costs(90), plain = tuning::plain_costs(on);
  for (const bool rounded : {false, true}) {
    INFO(rounded);
    std::vector<float> tiles, slices, pairs, forward, weight, x;
    each_product([&](const products::Sizes& sizes) {
      tiles.push_back(behind(fitted, plain, [&](const Costs& costs) {
        find_tiling(on, rounded ? costs.rounded_tiles : costs.strict_tiles, sizes);
      }));
      slices.push_back(behind(fitted, plain, [&](const Costs& costs) {
        find_slices(on, costs, sizes, {0, 8, !rounded, rounded});
      }));
      pairs.push_back(behind(fitted, plain, [&](const Costs& costs) {
        find_backward_slices(on, costs, sizes, {0, 8, !rounded, rounded});
      }));
    });
    each_convolution([&](const kernels::Conv2d& sizes) {
      forward.push_back(
          behind(fitted, plain, [&](const Costs& costs) { convolution::find_forward_cut(on, costs, sizes, rounded); }));
      weight.push_back(behind(
          fitted, plain, [&](const Costs& costs) { convolution::find_grad_weight_cut(on, costs, sizes, rounded); }));
      x.push_back(
          behind(fitted, plain, [&](const Costs& costs) { convolution::find_grad_x_cut(on, costs, sizes, rounded); }));
    });
    check_near("tiles", tiles, 1.15f, 1.6f);
    check_near("slices", slices, 1.15f, 1.6f);
    check_near("pairs", pairs, 1.15f, 1.6f);
    check_near("forward", forward, 1.1f, 1.3f);
    check_near("weight", weight, 1.1f, 1.3f);
    check_near("x", x, 1.1f, 1.3f);
  }
}

TEST_CASE("cuts: a watch takes each cut by its number", "[card]") {
  const Figures on = h100();
  const Costs costs = tuning::plain_costs(on);
  const products::Sizes sizes{.m = 64, .n = 256, .k = 784};
  const products::Tiling alone = find_tiling(on, costs.strict_tiles, sizes);
  std::set<std::pair<int, int>> taken;
  {
    tuning::Watch watch;
    CHECK(find_tiling(on, costs.strict_tiles, sizes).cost == alone.cost);
    const std::vector<float> guesses = watch.guesses;
    CHECK(guesses.size() == 24);
    CHECK(*std::min_element(guesses.begin(), guesses.end()) == alone.cost);
    for (int cut = 0; cut < 24; ++cut) {
      watch.forget(cut);
      const products::Tiling forced = find_tiling(on, costs.strict_tiles, sizes);
      CHECK(forced.cost == guesses[static_cast<std::size_t>(cut)]);
      taken.insert({forced.tile, forced.split});
    }
    watch.forget(24);
    CHECK(find_tiling(on, costs.strict_tiles, sizes).cost == std::numeric_limits<float>::max());
  }
  CHECK(taken.size() == 24);
  CHECK(find_tiling(on, costs.strict_tiles, sizes).tile == alone.tile);
}
