// The gradients that the forward pass of rows.cpp does not compute.

#include <algorithm>

#include "vectorized/chains.hpp"
#include "vectorized/convolution/row_kernels.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized::convolution {
namespace {

// ---- the gradient of weight ----------------------------------------------------------------------------------------

/// The gradients of weight and bias: products of the patches' columns with the gradient, summed over all positions in
/// order, chain by chain. Threads divide the columns and the outputs.
template <class T>
class RowsGradWeight : public Plan<T> {
 public:
  RowsGradWeight(const Problem& problem, const Arrays<T>& arrays)
      : problem_(problem),
        arrays_(arrays),
        plain_(problem.plain()),
        K_(problem.K()),
        outputs_(round_up(problem.O, gemm_kernels<T>().lanes)),
        all_(problem.N * problem.positions()),
        chain_(chain_length(all_)) {
    const std::int64_t lanes = gemm_kernels<T>().lanes, tile = gemm_kernels<T>().tile_rows;
    const std::int64_t O = problem.O, threads = problem.threads;
    block_ = block_of<T>(plain_ ? O : K_ + O);
    // Rough cycles: vectors of products, patches to gather and gradients to copy.
    double best = -1;
    for (std::int64_t column_parts = 1; column_parts <= threads; ++column_parts) {
      const std::int64_t output_parts = std::min(divide_up(threads, column_parts), divide_up(O, lanes));
      const auto columns = static_cast<double>(divide_up(divide_up(K_, tile), column_parts) * tile);
      const auto vectors = static_cast<double>(divide_up(divide_up(O, lanes), output_parts));
      const auto rounds = static_cast<double>(divide_up(problem.groups * column_parts * output_parts, threads));
      const double cost = rounds * (columns * vectors * 0.6 + (plain_ ? 0 : 0.2 * columns) + 4 * vectors);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      column_parts_ = column_parts;
      output_parts_ = output_parts;
    }
    const std::int64_t width = gemm_kernels<T>().panel_width;
    patches_ = plain_ ? 0 : round_up(block_ * (round_up(K_, 16) + 16), 16);
    gradients_ = round_up(block_ * round_up(O, width) + O + 2 * width, 16);
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return (chain_ < all_ ? 2 : 1) * problem_.groups * K_ * outputs_; }
  std::int64_t scratch() const override { return patches_ + gradients_; }
  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    phase == 0 ? sum(team, shared, scratch) : store(team, shared);
  }

 private:
  struct Part {
    std::int64_t group, first, last, output, outputs;  ///< [first, last): columns of the patches
  };

  void sum(const Team& team, T* sums, T* scratch) const {
    const std::int64_t lanes = gemm_kernels<T>().lanes, tile = gemm_kernels<T>().tile_rows;
    const std::int64_t parts = problem_.groups * column_parts_ * output_parts_, O = problem_.O;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t column = part % column_parts_, output = part / column_parts_ % output_parts_;
      const std::int64_t first = edge(O, lanes, output_parts_, output);
      const Part work{part / column_parts_ / output_parts_, edge(K_, tile, column_parts_, column),
                      edge(K_, tile, column_parts_, column + 1), first,
                      edge(O, lanes, output_parts_, output + 1) - first};
      if (work.last > work.first && work.outputs > 0) sum_part(work, sums + work.group * K_ * outputs_, scratch);
    }
  }

  void sum_part(const Part& part, T* sums, T* scratch) const {
    const auto& gemm = gemm_kernels<T>();
    const auto& kernels = row_kernels<T>();
    const std::int64_t C = problem_.C, O = problem_.O, pitch = problem_.x_pitch, line = problem_.KW * C;
    const std::int64_t width = gemm.panel_width;
    const std::int64_t first_row = part.first / line, last_row = divide_up(part.last, line);
    const std::int64_t padded = round_up(part.outputs, width);
    T* const gradients = scratch + patches_;
    T* const bias = gradients + block_ * padded;
    const bool sums_bias = arrays_.grad_bias != nullptr && part.first == 0;
    Block<T> block;
    block.m = part.last - part.first;
    block.n = round_up(part.outputs, gemm.lanes);
    block.a_row = 1;
    block.b = gradients;
    block.b_row = width;
    block.b_panel = block_ * width;
    T* const total = sums + part.first * outputs_ + part.output;
    T* const later = total + problem_.groups * K_ * outputs_;  // of a chain behind the first
    block.c_row = outputs_;
    for (std::int64_t first = 0; first < all_; first += block.k) {
      block.k = within_chain(first, all_, chain_, block_);
      const std::int64_t at = first * problem_.y_pitch + part.group * O + part.output;
      kernels.copy_panels({gradients, block.b_panel}, width, {arrays_.g + at, problem_.y_pitch}, arrays_.mask_at(at),
                          block.k, part.outputs);
      if (sums_bias)
        for (std::int64_t o = 0; o < part.outputs; o += width) {
          const std::int64_t count = std::min(width, part.outputs - o);
          T* const to = arrays_.grad_bias + part.group * O + part.output + o;
          sum_kernels<T>().column_sums(bias, gradients + o * block_, width, block.k, count);
          for (std::int64_t i = 0; i < count; ++i) to[i] = first == 0 ? bias[i] : to[i] + bias[i];
        }
      if (plain_) {
        block.a = arrays_.in + first * pitch + part.group * C + part.first;
        block.a_column = pitch;
      } else {
        const std::int64_t stride = round_up((last_row - first_row) * line, 16) + 16;
        for_images(first, first + block.k, problem_.positions(),
                   [&](std::int64_t n, std::int64_t position, std::int64_t count, std::int64_t before) {
                     const T* const image = arrays_.in + n * problem_.plane() * pitch + part.group * C;
                     kernels.gather({scratch + before * stride, stride}, image, problem_, {first_row, last_row},
                                    {position, position + count});
                   });
        block.a = scratch + part.first - first_row * line;
        block.a_column = stride;
      }
      block.c = first < chain_ ? total : later;
      block.accumulate = first % chain_ > 0;
      gemm.multiply(block);
      const std::int64_t last = first + block.k;
      if (last > chain_ && (last % chain_ == 0 || last == all_))
        add_chain(total, outputs_, later, outputs_, block.m, block.n);
    }
  }

  void store(const Team& team, const T* all) const {
    const auto& transpose = gemm_kernels<T>().transpose;
    const std::int64_t taps = problem_.taps(), C = problem_.C, O = problem_.O;
    for (std::int64_t group = 0; group < problem_.groups; ++group) {
      const T* const sums = all + group * K_ * outputs_;
      T* const out = arrays_.out + group * O * K_;
      const std::int64_t begin = team.begin(C, 16), end = team.end(C, 16);
      if (taps == 1) {
        if (begin < end) transpose(out + begin, C, sums + begin * outputs_, outputs_, end - begin, O);
      } else {
        for (std::int64_t c = begin; c < end; ++c)
          transpose(out + c * taps, K_, sums + c * outputs_, C * outputs_, taps, O);
      }
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  bool plain_;
  std::int64_t K_, outputs_;
  std::int64_t all_, chain_;  ///< positions; those of one chain
  std::int64_t block_ = 1;    ///< positions that are multiplied together
  std::int64_t column_parts_ = 1, output_parts_ = 1;
  std::int64_t patches_ = 0, gradients_ = 0;
};

// ---- the gradient of x for any stride ------------------------------------------------------------------------------

/// The gradient of the patches, which is then added to the images.
template <class T>
class RowsScattered : public Plan<T> {
 public:
  RowsScattered(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays) {
    const std::int64_t C = problem.C, O = problem.O, threads = problem.threads;
    if (problem.N * problem.groups < 4 * threads)
      channel_parts_ = std::clamp<std::int64_t>(C / gemm_kernels<T>().lanes, 1, threads);
    columns_ = round_up(divide_up(C, channel_parts_) * problem.taps(), gemm_kernels<T>().panel_width);
    block_ = block_of<T>(columns_ + O);
    gradients_ = round_up(block_ * (round_up(O, 16) + 16), 16);
    patches_ = round_up(std::max(block_ * (columns_ + 16), columns_), 16);
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return problem_.groups * problem_.O * channel_parts_ * columns_; }
  std::int64_t scratch() const override { return gradients_ + patches_; }
  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    phase == 0 ? prepare(team, shared, scratch) : multiply(team, shared, scratch);
  }

 private:
  void prepare(const Team& team, T* weights, T* scratch) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t C = problem_.C, O = problem_.O, taps = problem_.taps(), width = gemm.panel_width;
    const std::int64_t items = problem_.groups * channel_parts_ * O;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t o = item % O, part = item / O % channel_parts_, group = item / O / channel_parts_;
      const std::int64_t first = C * part / channel_parts_, channels = C * (part + 1) / channel_parts_ - first;
      gemm.transpose(scratch, channels, arrays_.weight + ((group * O + o) * C + first) * taps, taps, channels, taps);
      std::fill(scratch + channels * taps, scratch + columns_, T{0});
      for (std::int64_t panel = 0; panel < columns_; panel += width)
        std::copy_n(scratch + panel, width, weights + item / O * O * columns_ + panel * O + o * width);
    }
  }

  void multiply(const Team& team, const T* weights, T* scratch) const {
    const std::int64_t parts = problem_.groups * channel_parts_, items = problem_.N * parts;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t part = item % parts;
      run_part(item / parts, part / channel_parts_, part % channel_parts_, weights + part * problem_.O * columns_,
               scratch);
    }
  }

  void run_part(std::int64_t image, std::int64_t group, std::int64_t part, const T* weights, T* scratch) const {
    const auto& gemm = gemm_kernels<T>();
    const auto& kernels = row_kernels<T>();
    const std::int64_t C = problem_.C, O = problem_.O, pitch = problem_.x_pitch;
    const std::int64_t first = C * part / channel_parts_, channels = C * (part + 1) / channel_parts_ - first;
    const std::int64_t positions = problem_.positions(), plane = problem_.plane();
    T* const patches = scratch + gradients_;
    T* const to = arrays_.out + image * plane * pitch + group * C + first;
    for (std::int64_t p = 0; p < plane; ++p) std::fill_n(to + p * pitch, channels, T{0});
    Problem some = problem_;
    some.C = channels;
    Block<T> block;
    block.n = channels * problem_.taps();
    block.k = O;
    block.a = scratch;
    block.a_row = round_up(O, 16) + 16;
    block.a_column = 1;
    block.b = weights;
    block.b_row = gemm.panel_width;
    block.b_panel = O * gemm.panel_width;
    block.c = patches;
    block.c_row = columns_ + 16;
    block.n = round_up(block.n, gemm.lanes);
    for (std::int64_t p = 0; p < positions; p += block_) {
      block.m = std::min(block_, positions - p);
      const std::int64_t at = (image * positions + p) * problem_.y_pitch + group * O;
      kernels.copy({scratch, block.a_row}, {arrays_.in + at, problem_.y_pitch}, arrays_.mask_at(at), block.m, O);
      gemm.multiply(block);
      kernels.scatter(to, {patches, block.c_row}, some, {0, problem_.KH}, {p, p + block.m});
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  std::int64_t channel_parts_ = 1, columns_ = 0;  ///< the most columns of patches per part, in whole panels
  std::int64_t block_ = 1, gradients_ = 0, patches_ = 0;
};

// ---- the gradient of bias alone ------------------------------------------------------------------------------------

/// The sum of g over all positions, in blocks.
template <class T>
class RowsGradBias : public Plan<T> {
 public:
  RowsGradBias(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays) {}
  std::int64_t scratch() const override { return (block_ + 1) * gemm_kernels<T>().panel_width; }

  void run(const Team& team, int /*phase*/, T* /*shared*/, T* scratch) const override {
    const std::int64_t positions = problem_.N * problem_.positions(), outputs = problem_.groups * problem_.O;
    const std::int64_t width = gemm_kernels<T>().panel_width, panels = divide_up(outputs, width);
    for (std::int64_t panel = team.begin(panels); panel < team.end(panels); ++panel) {
      const std::int64_t output = panel * width, count = std::min(width, outputs - output);
      T* const total = arrays_.grad_bias + output;
      std::fill_n(total, count, T{0});
      for (std::int64_t first = 0; first < positions; first += block_) {
        const std::int64_t rows = std::min(block_, positions - first), at = first * problem_.y_pitch + output;
        row_kernels<T>().copy_panels({scratch, 0}, width, {arrays_.g + at, problem_.y_pitch}, arrays_.mask_at(at), rows,
                                     count);
        T* const part = scratch + block_ * width;
        sum_kernels<T>().column_sums(part, scratch, width, rows, count);
        for (std::int64_t i = 0; i < count; ++i) total[i] += part[i];
      }
    }
  }

 private:
  static constexpr std::int64_t block_ = 256;  // positions
  Problem problem_;
  Arrays<T> arrays_;
};

}  // namespace

template <class T>
PlanPointer<T> rows_gradient(const Problem& problem, const Arrays<T>& arrays) {
  if (problem.of_weight()) return std::make_unique<RowsGradWeight<T>>(problem, arrays);
  if (problem.of_bias()) return std::make_unique<RowsGradBias<T>>(problem, arrays);
  return std::make_unique<RowsScattered<T>>(problem, arrays);
}
template PlanPointer<float> rows_gradient(const Problem&, const Arrays<float>&);
template PlanPointer<double> rows_gradient(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
