#include "members.hpp"

#include <algorithm>

#include "tern/core/error.hpp"

namespace tern::benchmarks {

using namespace cuda::tuning;

kernels::Conv2d Case::conv2d() const {
  const auto& [N, C, O, H, K, padding] = sizes;
  kernels::Conv2d of{.N = N, .C = C, .H = H, .W = H, .O = O, .KH = K, .KW = K};
  of.OH = of.OW = H + 2 * padding - K + 1;
  of.pad_h = of.pad_w = padding;
  return of;
}

std::string Case::text() const {
  const auto& [a, b, c, d, e, f] = sizes;
  if (slot == Slot::linear || slot == Slot::linear_backward)
    return message(slot == Slot::linear ? "linear " : "linear_backward ", a, " x ", c, " to ", b);
  return message(slot == Slot::conv2d        ? "conv2d "
                 : slot == Slot::grad_weight ? "grad_weight "
                                             : "grad_x ",
                 a, " x ", b, " x ", d, " to ", c, ", ", e, "x", e, ", padding ", f);
}

namespace {

// ---- the problems ----

/// Layers of small networks, and sizes between them. Every third of the grid: the rest changes little.
std::vector<Case> products(Slot slot, double most) {
  std::vector<Case> cases;
  int number = 0;
  for (const std::int64_t m : {8, 32, 64, 128, 256, 512})
    for (const std::int64_t n : {16, 64, 84, 128, 196, 392, 784})
      for (const std::int64_t k : {64, 120, 256, 392, 784, 1600}) {
        if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) > most) continue;
        if (number++ % 3 == 0) cases.push_back({slot, {m, n, k}});
      }
  return cases;
}

std::vector<Case> convolutions(Slot slot) {
  const std::array<std::int64_t, 5> layers[]{{1, 6, 28, 5, 2},   {1, 20, 28, 5, 0},  {6, 16, 14, 5, 0},
                                             {20, 50, 12, 5, 0}, {3, 12, 32, 3, 1},  {3, 32, 32, 5, 2},
                                             {8, 16, 16, 3, 1},  {10, 20, 12, 3, 0}, {16, 16, 14, 3, 1},
                                             {16, 32, 8, 3, 1},  {12, 24, 16, 5, 2}, {5, 7, 20, 3, 0}};
  std::vector<Case> cases;
  for (const auto& [C, O, H, K, padding] : layers)
    for (const std::int64_t N : {1, 8, 32, 128, 512})
      if (N * C * O * H * H * K * K <= std::int64_t{4'000'000'000}) {
        const bool of_lenet = (C == 1 && O == 20) || (C == 20 && O == 50);
        cases.push_back({slot, {N, C, O, H, K, padding}, of_lenet ? 4.0 : 1.0});
      }
  return cases;
}

std::vector<Case> together(std::vector<Case> first, const std::vector<Case>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// ---- the numbers ----

void add(std::vector<Number>& to, Block& block) {
  for (float* const at : {&block.work_k, &block.work_once, &block.wait_k, &block.wait_once}) to.push_back({at});
}

std::vector<Number> numbers_of(Tiles& costs) {
  std::vector<Number> all;
  for (Block& block : costs.of) add(all, block);
  all.push_back({&costs.split});
  all.push_back({&costs.part});
  for (int i = 1; i < 4; ++i) {
    all.push_back({&costs.reached[i]});
    for (int percent = 76; percent <= 100; percent += 3)
      all.back().candidates.push_back(0.01f * static_cast<float>(percent));
  }
  return all;
}

void add_occupancy(std::vector<Number>& to, float (&resident)[8], float& exposed, float& again) {
  for (float& blocks : resident) to.push_back({&blocks, {1, 2, 3}});
  to.push_back({&exposed});
  to.push_back({&again});
}
std::vector<Number> numbers_of(Slices& costs) {
  std::vector<Number> all;
  for (Block& block : costs.of) add(all, block);
  add_occupancy(all, costs.resident, costs.exposed, costs.again);
  return all;
}
std::vector<Number> numbers_of(SlicePairs& costs) {
  std::vector<Number> all;
  for (Block& block : costs.weight) add(all, block);
  for (Block& block : costs.data) add(all, block);
  add_occupancy(all, costs.resident, costs.exposed, costs.again);
  return all;
}
template <class Columns>
std::vector<Number> numbers_of(Cut<Columns>& costs) {
  std::vector<Number> all;
  for (Columns* const columns : {&costs.work, &costs.wait}) [&]<auto... part>(MemberList<part...>) {
      (all.push_back({&(columns->*part)}), ...);
    }
  (typename Columns::Members{});
  all.push_back({&costs.exposed});
  return all;
}

}  // namespace

std::vector<float> Member::guesses(const Figures& on, const Costs& costs, const Case& of) const {
  Watch watch;
  const auto& [m, n, k, _a, _b, _c] = of.sizes;
  const cuda::products::Sizes product{.m = m, .n = n, .k = k, .rounded = rounded};
  // As the mode searches: doubles where the card has cores for them, in TF32 both.
  const cuda::products::SlicesAllowed all{.first = 0, .end = 8, .doubles = !rounded || on.doubles > 2, .tf32 = rounded};
  const Tiles& forward = rounded ? costs.rounded_tiles : costs.strict_tiles;
  const Tiles& backward = rounded ? costs.rounded_backward_tiles : costs.strict_tiles;
  switch (of.slot) {
    case Slot::linear:
      if (slices)
        cuda::products::find_slices(on, costs, product, all);
      else
        cuda::products::find_tiling(on, forward, product);
      break;
    case Slot::linear_backward:
      if (slices)
        cuda::products::find_backward_slices(on, costs, product, all);
      else
        cuda::products::find_backward_tiling(on, backward, product);
      break;
    case Slot::conv2d:
      cuda::convolution::find_forward_cut(on, costs, of.conv2d(), rounded);
      break;
    case Slot::grad_weight:
      cuda::convolution::find_grad_weight_cut(on, costs, of.conv2d(), rounded);
      break;
    case Slot::grad_x:
      cuda::convolution::find_grad_x_cut(on, costs, of.conv2d(), rounded);
  }
  return watch.guesses;
}

std::vector<Number> Member::numbers(Costs& costs) const {
  const std::string_view of = name;
  if (of == "strict_tiles") return numbers_of(costs.strict_tiles);
  if (of == "rounded_tiles") return numbers_of(costs.rounded_tiles);
  if (of == "rounded_backward_tiles") return numbers_of(costs.rounded_backward_tiles);
  if (of == "strict_slices") return numbers_of(costs.strict_slices);
  if (of == "rounded_slices") return numbers_of(costs.rounded_slices);
  if (of == "strict_pairs") return numbers_of(costs.strict_pairs);
  if (of == "rounded_pairs") return numbers_of(costs.rounded_pairs);
  if (of == "strict_forward") return numbers_of(costs.strict_forward);
  if (of == "rounded_forward") return numbers_of(costs.rounded_forward);
  if (of == "strict_grad_x") return numbers_of(costs.strict_grad_x);
  if (of == "rounded_grad_x") return numbers_of(costs.rounded_grad_x);
  auto all = rounded ? numbers_of(costs.rounded_grad_weight) : numbers_of(costs.strict_grad_weight);
  all.push_back({rounded ? &costs.rounded_adding : &costs.strict_adding});
  return all;
}

const std::vector<Member>& members() {
  // Up to the work above which other algorithms are faster; backward TF32 tiles are for more than 32 rows.
  static const std::vector<Member> all = [] {
    const auto forward = products(Slot::linear, 2.2e8), backward = products(Slot::linear_backward, 1.2e8);
    auto rows = backward;
    std::erase_if(rows, [](const Case& of) { return of.sizes[0] <= 32; });
    std::vector<Member> list{{"strict_tiles", false, false, together(forward, backward)},
                             {"rounded_tiles", true, false, forward},
                             {"rounded_backward_tiles", true, false, rows}};
    for (const bool rounded : {false, true}) {
      list.push_back({rounded ? "rounded_slices" : "strict_slices", rounded, true, forward});
      list.push_back({rounded ? "rounded_pairs" : "strict_pairs", rounded, true, backward});
      list.push_back({rounded ? "rounded_forward" : "strict_forward", rounded, false, convolutions(Slot::conv2d)});
      list.push_back(
          {rounded ? "rounded_grad_weight" : "strict_grad_weight", rounded, false, convolutions(Slot::grad_weight)});
      list.push_back({rounded ? "rounded_grad_x" : "strict_grad_x", rounded, false, convolutions(Slot::grad_x)});
    }
    return list;
  }();
  return all;
}

}  // namespace tern::benchmarks
