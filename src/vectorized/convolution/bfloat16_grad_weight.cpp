// The gradients of weight and bias of rows_gradients.cpp, with factors rounded to bfloat16.

#include <algorithm>
#include <utility>

#include "vectorized/convolution/bfloat16_im2col.hpp"
#include "vectorized/convolution/row_kernels.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized::convolution {
namespace {

using bfloat16::depth;
using bfloat16::panel_lines;
using bfloat16::step_numbers;

/// Products of the gradient's columns with those of the patches, summed over all positions in order. Threads divide the
/// panels of both. The gradient of bias is summed in float32.
class Bfloat16GradWeight : public Plan<float> {
 public:
  Bfloat16GradWeight(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels)
      : problem_(problem),
        arrays_(arrays),
        kernels_(kernels),
        K_(problem.K()),
        patch_row_(bfloat16_row(K_)),
        gradient_row_(bfloat16_row(problem.O)),
        patch_panels_(divide_up(K_, panel_lines)),
        output_panels_(divide_up(problem.O, panel_lines)),
        steps_(steps_of(K_ + problem.O)),
        block_(steps_ * depth),
        patches_(problem, arrays, kernels, block_) {
    share_out(problem.threads);
    const auto take = [&](std::int64_t floats) { return std::exchange(scratch_, scratch_ + round_up(floats, 16)); };
    const bool sums = arrays.grad_bias != nullptr, masks = sums && arrays.mask != nullptr;
    rows_ = take(floats_of(block_ * std::max(patch_row_, gradient_row_)));
    window_ = take(floats_of(patches_.window()));
    packed_patches_ = take(floats_of(patch_panels_ * steps_ * step_numbers));
    packed_gradients_ = take(floats_of(output_panels_ * steps_ * step_numbers));
    sums_ = take(sums ? problem.O : 0);
    masked_ = take(masks ? block_ * round_up(problem.O, 16) : 0);
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return problem_.groups * problem_.O * K_; }
  std::int64_t scratch() const override { return scratch_; }
  void run(const Team& team, int phase, float* shared, float* scratch) const override {
    phase == 0 ? sum(team, shared, scratch) : store(team, shared);
  }

 private:
  struct Part {
    std::int64_t group, first, last, first_output, last_output;  ///< panels: of the patches, of the outputs
  };

  static std::int64_t steps_of(std::int64_t columns) {
    const std::int64_t step_bytes = columns * depth * static_cast<std::int64_t>(sizeof(std::uint16_t));
    return std::clamp<std::int64_t>(cache_share(2) / step_bytes, 1, 8);
  }

  void share_out(std::int64_t threads) {
    // In products of two panels: the cost to cut and pack one panel of patches, and one of gradients.
    const double patch = 0.4, gradient = 0.6;
    double best = -1;
    for (std::int64_t patch_parts = 1; patch_parts <= threads; ++patch_parts) {
      const std::int64_t output_parts = std::min(divide_up(threads, patch_parts), output_panels_);
      const auto patches = static_cast<double>(divide_up(patch_panels_, patch_parts));
      const auto outputs = static_cast<double>(divide_up(output_panels_, output_parts));
      const auto rounds = static_cast<double>(divide_up(problem_.groups * patch_parts * output_parts, threads));
      const double cost = rounds * (patches * outputs + patch * patches + gradient * outputs);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      patch_parts_ = patch_parts;
      output_parts_ = output_parts;
    }
  }

  void sum(const Team& team, float* sums, float* scratch) const {
    const std::int64_t parts = problem_.groups * patch_parts_ * output_parts_;
    kernels_.begin();
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t column = part % patch_parts_, output = part / patch_parts_ % output_parts_;
      const Part work{part / patch_parts_ / output_parts_, edge(patch_panels_, 1, patch_parts_, column),
                      edge(patch_panels_, 1, patch_parts_, column + 1), edge(output_panels_, 1, output_parts_, output),
                      edge(output_panels_, 1, output_parts_, output + 1)};
      if (work.last > work.first && work.last_output > work.first_output) sum_part(work, sums, scratch);
    }
    kernels_.end();
  }

  void sum_part(const Part& part, float* sums, float* scratch) const {
    const std::int64_t all = problem_.N * problem_.positions(), panel_numbers = steps_ * step_numbers;
    const std::uint16_t *const patches = numbers_at(scratch + packed_patches_), *const gradients = numbers_at(
                                                                                    scratch + packed_gradients_);
    for (std::int64_t first = 0; first < all; first += block_) {
      const std::int64_t last = std::min(first + block_, all);
      pack_patches(part, first, last, scratch);
      pack_gradients(part, first, last, scratch);
      for (std::int64_t i = part.first_output; i < part.last_output; ++i)
        for (std::int64_t j = part.first; j < part.last; ++j) {
          const std::int64_t output = i * panel_lines, column = j * panel_lines;
          kernels_.multiply({.a = gradients + (i - part.first_output) * panel_numbers,
                             .a_line = depth,
                             .a_step = step_numbers,
                             .b = patches + (j - part.first) * panel_numbers,
                             .steps = divide_up(last - first, depth),
                             .c = sums + (part.group * problem_.O + output) * K_ + column,
                             .c_row = K_,
                             .rows = std::min(panel_lines, problem_.O - output),
                             .columns = std::min(panel_lines, K_ - column),
                             .column_bias = nullptr,
                             .relu = false,
                             .accumulate = first > 0});
        }
    }
  }

  void pack_patches(const Part& part, std::int64_t first, std::int64_t last, float* scratch) const {
    const std::int64_t line = problem_.KW * problem_.C, column = part.first * panel_lines, first_row = column / line;
    const std::int64_t last_row = divide_up(std::min(part.last * panel_lines, K_), line);
    std::uint16_t* const rows = numbers_at(scratch + rows_);
    patches_.cut({rows, patch_row_}, numbers_at(scratch + window_), part.group, {first, last}, {first_row, last_row});
    pack(kernels_.pack_rounded_b, numbers_at(scratch + packed_patches_), rows + column - first_row * line, patch_row_,
         part.last - part.first, last - first);
  }

  void pack_gradients(const Part& part, std::int64_t first, std::int64_t last, float* scratch) const {
    const std::int64_t output = part.first_output * panel_lines, positions = last - first, pitch = problem_.y_pitch;
    const std::int64_t outputs = std::min(part.last_output * panel_lines, problem_.O) - output;
    const std::int64_t channel = part.group * problem_.O + output, at = first * pitch + channel;
    std::uint16_t* const rows = numbers_at(scratch + rows_);
    for (std::int64_t i = 0; i < positions; ++i)
      kernels_.round(rows + i * gradient_row_, arrays_.g + at + i * pitch, arrays_.mask_at(at + i * pitch), outputs);
    pack(kernels_.pack_rounded_a, numbers_at(scratch + packed_gradients_), rows, gradient_row_,
         part.last_output - part.first_output, positions);
    if (arrays_.grad_bias != nullptr && part.first == 0) add_to_bias(channel, outputs, first, positions, scratch);
  }

  void add_to_bias(std::int64_t channel, std::int64_t outputs, std::int64_t first, std::int64_t positions,
                   float* scratch) const {
    const std::int64_t at = first * problem_.y_pitch + channel;
    const float* g = arrays_.g + at;
    std::int64_t row = problem_.y_pitch;
    if (arrays_.mask != nullptr) {
      const std::int64_t masked_row = round_up(outputs, 16);
      row_kernels<float>().copy({scratch + masked_, masked_row}, {g, row}, arrays_.mask + at, positions, outputs);
      g = scratch + masked_;
      row = masked_row;
    }
    float *const sums = scratch + sums_, *const total = arrays_.grad_bias + channel;
    sum_kernels<float>().column_sums(sums, g, row, positions, outputs);
    for (std::int64_t i = 0; i < outputs; ++i) total[i] = first == 0 ? sums[i] : total[i] + sums[i];
  }

  /// Panels of columns of [positions, row].
  template <class Pack>
  void pack(const Pack& pack_step, std::uint16_t* out, const std::uint16_t* from, std::int64_t row, std::int64_t panels,
            std::int64_t positions) const {
    for (std::int64_t panel = 0; panel < panels; ++panel, out += steps_ * step_numbers, from += panel_lines)
      for (std::int64_t step = 0, at = 0; at < positions; ++step, at += depth)
        pack_step(out + step * step_numbers, from + at * row, row, std::min(depth, positions - at));
  }

  /// From [O, taps, C] to [O, C, taps].
  void store(const Team& team, const float* sums) const {
    const std::int64_t taps = problem_.taps(), C = problem_.C, outputs = problem_.groups * problem_.O;
    for (std::int64_t o = team.begin(outputs); o < team.end(outputs); ++o)
      gemm_kernels<float>().transpose(arrays_.out + o * K_, taps, sums + o * K_, C, taps, C);
  }

  Problem problem_;
  Arrays<float> arrays_;
  const bfloat16::Kernels& kernels_;
  std::int64_t K_, patch_row_, gradient_row_;  ///< rows in scratch
  std::int64_t patch_panels_, output_panels_;
  std::int64_t steps_, block_;  ///< positions that are multiplied together
  Bfloat16Im2col patches_;
  std::int64_t patch_parts_ = 1, output_parts_ = 1;
  /// Offsets in scratch: rows of patches or gradients, a window of an image, panels of both, and sums and the masked
  /// gradient for that of bias.
  std::int64_t rows_ = 0, window_ = 0, packed_patches_ = 0, packed_gradients_ = 0, sums_ = 0, masked_ = 0;
  std::int64_t scratch_ = 0;
};

}  // namespace

PlanPointer<float> bfloat16_grad_weight(const Problem& problem, const Arrays<float>& arrays,
                                        const bfloat16::Kernels& kernels) {
  return std::make_unique<Bfloat16GradWeight>(problem, arrays, kernels);
}

}  // namespace tern::vectorized::convolution
