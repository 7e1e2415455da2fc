// Few outputs of a group: im2col without cutting patches. A tap of all output positions is a run of the image, with its
// padding, and of a strided one a run of one of its phases: every stride-th row and column. The positions lie row after
// row, and what is computed between the rows is left out. The sums are those of the patches, bit for bit.

#include <algorithm>
#include <vector>

#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/convolution/direct_kernels.hpp"

namespace tern::vectorized::convolution {
namespace {

// More outputs are products of patches.
constexpr std::int64_t many_outputs = 64;
// Elements of an image that is copied, and of an output's positions that are computed together.
constexpr std::int64_t most_copied = std::int64_t{1} << 23, some_positions = 4096, most_outputs = 8;

/// How the planes of an image are read: `phases` of `rows` x `width` elements each.
struct Planes {
  std::int64_t rows = 0, width = 0, phases = 1;
  bool copied = false;
  std::int64_t size() const { return rows * width; }
};

Planes planes_of(const Problem& p) {
  if (!p.strided() && p.pad_h == 0 && p.pad_w == 0) return {.rows = p.H, .width = p.W};
  return {.rows = p.OH + (p.KH - 1) * p.dilation_h / p.stride_h,
          .width = p.OW + (p.KW - 1) * p.dilation_w / p.stride_w,
          .phases = p.stride_h * p.stride_w,
          .copied = true};
}

template <class T>
class Direct : public Plan<T> {
 public:
  Direct(const Problem& problem, const Arrays<T>& arrays)
      : problem_(problem), arrays_(arrays), planes_(planes_of(problem)) {
    for (std::int64_t c = 0; c < problem.C; ++c)
      for (std::int64_t i = 0; i < problem.KH; ++i)
        for (std::int64_t j = 0; j < problem.KW; ++j) {
          const std::int64_t h = i * problem.dilation_h, w = j * problem.dilation_w;
          const std::int64_t phase = h % problem.stride_h * problem.stride_w + w % problem.stride_w;
          offsets_.push_back((c * planes_.phases + phase) * planes_.size() + h / problem.stride_h * planes_.width +
                             w / problem.stride_w);
        }
    if (problem.N * problem.groups < 4 * problem.threads)
      row_parts_ = std::min<std::int64_t>(problem.threads, problem.OH);
    rows_ = std::clamp<std::int64_t>(some_positions / planes_.width, 1, problem.OH);
    copied_ = planes_.copied ? round_up(problem.C * planes_.phases * planes_.size(), 16) : 0;
    sums_ = planes_.width == problem.OW ? 0 : round_up(rows_ * planes_.width, 16);
  }
  std::int64_t scratch() const override { return copied_ + most_outputs * sums_; }

  void run(const Team& team, int /*phase*/, T* /*shared*/, T* scratch) const override {
    const std::int64_t parts = problem_.N * problem_.groups * row_parts_;
    const T* copied = nullptr;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t row_part = part % row_parts_, image = part / row_parts_;
      const T* in = arrays_.in + image * problem_.C * problem_.plane();
      if (planes_.copied) {
        if (in != copied) copy(in, scratch);
        copied = in;
        in = scratch;
      }
      run_rows(image, problem_.OH * row_part / row_parts_, problem_.OH * (row_part + 1) / row_parts_, in,
               scratch + copied_);
    }
  }

 private:
  void copy(const T* from, T* to) const {
    for (std::int64_t phase = 0; phase < planes_.phases; ++phase)
      for (std::int64_t c = 0; c < problem_.C; ++c)
        copy_phase(from + c * problem_.plane(), to + (c * planes_.phases + phase) * planes_.size(), phase);
  }

  void copy_phase(const T* from, T* to, std::int64_t phase) const {
    const auto& p = problem_;
    const std::int64_t stride = p.stride_w, first = phase % stride - p.pad_w;
    // Columns [begin, end) lie inside.
    const std::int64_t begin =
        std::clamp<std::int64_t>(divide_up(std::max<std::int64_t>(-first, 0), stride), 0, planes_.width);
    const std::int64_t end = first >= p.W ? begin : std::clamp(divide_up(p.W - first, stride), begin, planes_.width);
    const std::int64_t count = end - begin;
    std::int64_t h = phase / stride - p.pad_h;
    for (std::int64_t row = 0; row < planes_.rows; ++row, h += p.stride_h, to += planes_.width) {
      if (h < 0 || h >= p.H || count == 0) {
        std::fill_n(to, planes_.width, T{0});
        continue;
      }
      std::fill_n(to, begin, T{0});
      const T* const in = from + h * p.W + first + begin * stride;
      if (stride == 1)
        std::copy_n(in, count, to + begin);
      else if (stride == 2)
        kernels_.copy_every_second(to + begin, in, count);
      else
        for (std::int64_t w = 0; w < count; ++w) to[begin + w] = in[w * stride];
      std::fill_n(to + end, planes_.width - end, T{0});
    }
  }

  /// Rows [first, last) of an image of a group.
  void run_rows(std::int64_t image, std::int64_t first, std::int64_t last, const T* in, T* sums) const {
    const auto& p = problem_;
    const std::int64_t group = image % p.groups, width = planes_.width;
    DirectBlock<T> block;
    block.offsets = offsets_.data();
    block.taps = block.weight_row = p.K();
    block.relu = clips(p.activation);
    block.top = top_of<T>(p.activation);
    for (std::int64_t row = first; row < last; row += rows_) {
      const std::int64_t rows = std::min(rows_, last - row);
      block.in = in + row * width;
      block.positions = (rows - 1) * width + p.OW;
      for (std::int64_t tile = 0, tiles = divide_up(p.O, most_outputs); tile < tiles; ++tile) {
        const std::int64_t o = p.O * tile / tiles;
        block.outputs = p.O * (tile + 1) / tiles - o;
        block.weights = arrays_.weight + (group * p.O + o) * p.K();
        block.bias = arrays_.bias == nullptr ? nullptr : arrays_.bias + group * p.O + o;
        T* const out = arrays_.out + (image * p.O + o) * p.positions() + row * p.OW;
        block.out = sums_ == 0 ? out : sums;
        block.out_row = sums_ == 0 ? p.positions() : sums_;
        kernels_.run(block);
        if (sums_ == 0) continue;
        for (std::int64_t i = 0; i < block.outputs; ++i)
          for (std::int64_t r = 0; r < rows; ++r)
            std::copy_n(sums + i * sums_ + r * width, p.OW, out + i * p.positions() + r * p.OW);
      }
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  const DirectKernels<T>& kernels_ = direct_kernels<T>();
  Planes planes_;
  Pooled<std::int64_t> offsets_;
  std::int64_t row_parts_ = 1, rows_ = 1;  ///< rows of outputs that are computed together
  std::int64_t copied_ = 0, sums_ = 0;     ///< elements of scratch: of an image, of an output's sums
};

}  // namespace

bool direct_fits(const Problem& problem) {
  if (problem.O * problem.positions() * problem.K() == 0) return false;
  if (problem.padded() > most_copied && (problem.pad_h > 0 || problem.pad_w > 0)) return false;
  const Planes planes = planes_of(problem);
  if (planes.copied && problem.C * planes.phases > most_copied / planes.size()) return false;
  if (3 * problem.OW < planes.width) return false;
  if (problem.strided() && problem.taps() == 1) return false;  // most of what is copied would not be read
  return problem.O <= many_outputs && direct_products(problem) <= patch_products(problem);
}

double direct_products(const Problem& problem) {
  return 1.1 * static_cast<double>(problem.O * planes_of(problem).width) / static_cast<double>(problem.OW);
}
double direct_copies(const Problem& problem) {
  const Planes planes = planes_of(problem);
  const double rows = static_cast<double>(problem.N * problem.groups * problem.C * planes.phases * planes.rows);
  return (planes.copied ? 25 * rows : 0) + 3 * static_cast<double>(problem.K());
}
double patch_products(const Problem& problem) {
  const double cutting = problem.stride_w != 1 ? 38 : 3 + 80 / static_cast<double>(problem.OW);
  return static_cast<double>(problem.O) + cutting;
}

template <class T>
PlanPointer<T> direct(const Problem& problem, const Arrays<T>& arrays) {
  return std::make_unique<Direct<T>>(problem, arrays);
}
template PlanPointer<float> direct(const Problem&, const Arrays<float>&);
template PlanPointer<double> direct(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
