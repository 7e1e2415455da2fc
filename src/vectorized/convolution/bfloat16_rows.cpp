// The forward pass of rows.cpp, and the gradient of x if the kernel can be flipped, with factors rounded to bfloat16.

#include <algorithm>

#include "vectorized/convolution/bfloat16_im2col.hpp"
#include "vectorized/convolution/rows.hpp"

namespace tern::vectorized::convolution {
namespace {

using bfloat16::depth;
using bfloat16::panel_lines;
using bfloat16::step_numbers;

/// The positions of all images, one after another, are the rows of a product.
class Bfloat16Rows : public Plan<float> {
 public:
  Bfloat16Rows(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels)
      : problem_(flipped(problem)),
        arrays_(arrays),
        kernels_(kernels),
        flipped_(problem.pass == Pass::grad_x),
        K_(problem_.K()),
        panels_(divide_up(problem_.O, panel_lines)),
        steps_(divide_up(K_, depth)),
        row_(bfloat16_row(K_)),
        block_(block_of(row_)),
        patches_(problem_, arrays, kernels, block_),
        share_(share_rows(problem_, divide_up(problem_.N * problem_.positions(), panel_lines), panels_)) {}
  int phases() const override { return 2; }
  std::int64_t shared() const override { return floats_of(problem_.groups * panels_ * steps_ * step_numbers); }
  std::int64_t scratch() const override {
    return std::max(floats_of(block_ * row_) + floats_of(patches_.window()), round_up(panel_lines * K_, 16));
  }
  void run(const Team& team, int phase, float* shared, float* scratch) const override {
    phase == 0 ? prepare(team, numbers_at(shared), scratch) : multiply(team, numbers_at(shared), scratch);
  }

 private:
  static std::int64_t block_of(std::int64_t row) {
    const std::int64_t panel_bytes = panel_lines * row * static_cast<std::int64_t>(sizeof(std::uint16_t));
    return std::clamp<std::int64_t>(cache_share(0.5) / panel_bytes, 1, 8) * panel_lines;
  }

  /// Panels of the weights, each with consecutive steps.
  void prepare(const Team& team, std::uint16_t* weights, float* scratch) const {
    const std::int64_t C = problem_.C, O = problem_.O, taps = problem_.taps(), items = problem_.groups * panels_;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t panel = item % panels_, group = item / panels_;
      const std::int64_t outputs = std::min(panel_lines, O - panel * panel_lines);
      for (std::int64_t i = 0; i < outputs; ++i) {  // from [C, taps] to [taps, C], with the taps reversed when flipped
        const std::int64_t output = panel * panel_lines + i;
        const std::int64_t from = (flipped_ ? group * C * O + output : (group * O + output) * C) * taps;
        gemm_kernels<float>().transpose(scratch + i * K_ + (flipped_ ? K_ - C : 0), flipped_ ? -C : C,
                                        arrays_.weight + from, flipped_ ? O * taps : taps, C, taps);
      }
      std::uint16_t* out = weights + item * steps_ * step_numbers;
      for (std::int64_t number = 0; number < K_; number += depth, out += step_numbers)
        kernels_.pack_b(out, {.from = scratch + number,
                              .line = K_,
                              .number = 1,
                              .lines = outputs,
                              .numbers = std::min(depth, K_ - number)});
    }
  }

  void multiply(const Team& team, const std::uint16_t* weights, float* scratch) const {
    const std::int64_t all = problem_.N * problem_.positions(), row_parts = share_.row_parts;
    const std::int64_t column_parts = share_.column_parts, parts = problem_.groups * row_parts * column_parts;
    std::uint16_t *const patches = numbers_at(scratch), *const window = numbers_at(scratch + floats_of(block_ * row_));
    std::fill_n(patches, block_ * row_, std::uint16_t{0});  // the rest of a patch's row stays zero
    kernels_.begin();
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t column = part % column_parts, row = part / column_parts % row_parts;
      const std::int64_t group = part / column_parts / row_parts;
      const std::int64_t begin = edge(all, panel_lines, row_parts, row);
      const std::int64_t end = edge(all, panel_lines, row_parts, row + 1);
      const std::int64_t first_panel = edge(panels_, 1, column_parts, column);
      const std::int64_t last_panel = edge(panels_, 1, column_parts, column + 1);
      if (first_panel == last_panel) continue;
      for (std::int64_t first = begin; first < end; first += block_) {
        const std::int64_t last = std::min(first + block_, end);
        patches_.cut({patches, row_}, window, group, {first, last}, {0, problem_.KH});
        multiply_block(patches, group, {first, last}, {first_panel, last_panel}, weights);
      }
    }
    kernels_.end();
  }

  void multiply_block(const std::uint16_t* patches, std::int64_t group, Range positions, Range panels,
                      const std::uint16_t* weights) const {
    const auto [first, last] = positions;
    for (std::int64_t panel = panels.first; panel < panels.last; ++panel) {
      const std::int64_t output = panel * panel_lines, channel = group * problem_.O + output;
      for (std::int64_t at = first; at < last; at += panel_lines)
        kernels_.multiply({.a = patches + (at - first) * row_,
                           .a_line = row_,
                           .a_step = depth,
                           .b = weights + (group * panels_ + panel) * steps_ * step_numbers,
                           .steps = steps_,
                           .c = arrays_.out + at * problem_.y_pitch + channel,
                           .c_row = problem_.y_pitch,
                           .rows = std::min(panel_lines, last - at),
                           .columns = std::min(panel_lines, problem_.O - output),
                           .column_bias = arrays_.bias == nullptr ? nullptr : arrays_.bias + channel,
                           .relu = clips(problem_.activation),
                           .top = top_of<float>(problem_.activation)});
    }
  }

  Problem problem_;
  Arrays<float> arrays_;
  const bfloat16::Kernels& kernels_;
  bool flipped_;
  std::int64_t K_, panels_, steps_;  ///< panels of a group's outputs
  std::int64_t row_, block_;         ///< numbers of a patch in scratch; positions
  Bfloat16Im2col patches_;
  RowsShare share_;
};

}  // namespace

bool bfloat16_fits(const Problem& problem) {
  return problem.layout == Layout::channels_last && problem.precision == Precision::bf16 &&
         problem.element == sizeof(float) && problem.pass != Pass::grad_bias &&
         (problem.pass != Pass::grad_x || flips(problem));
}

double bfloat16_cycles(const Problem& problem, const bfloat16::Kernels& kernels) {
  const auto of = [](std::int64_t count, std::int64_t unit) { return static_cast<double>(divide_up(count, unit)); };
  const auto positions = static_cast<double>(problem.N * problem.groups * problem.positions());
  const auto K = static_cast<double>(problem.K()), outputs = of(problem.O, bfloat16::tile_lines);
  if (problem.pass == Pass::grad_weight)
    return positions / depth * outputs * of(problem.K(), bfloat16::tile_lines) * (kernels.tile_cycles + 40) +
           positions * (0.35 * K + 0.4 * static_cast<double>(problem.O));
  return positions / bfloat16::tile_lines * outputs * (kernels.tile_cycles * of(problem.K(), depth) + 40) +
         positions * K * 0.1;
}

PlanPointer<float> bfloat16_rows(const Problem& problem, const Arrays<float>& arrays,
                                 const bfloat16::Kernels& kernels) {
  if (problem.of_weight()) return bfloat16_grad_weight(problem, arrays, kernels);
  if (problem.pass == Pass::grad_x && !zeros_are_harmless(problem, arrays.weight)) return rows(problem, arrays);
  return std::make_unique<Bfloat16Rows>(problem, arrays, kernels);
}

}  // namespace tern::vectorized::convolution
