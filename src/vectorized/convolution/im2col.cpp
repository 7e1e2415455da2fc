// im2col: convolutions of channels-first images whose lanes are output positions, as products of the weights with
// patches that are cut out of the images. For any stride and dilation, and for few channels.

#include <algorithm>

#include "tern/core/error.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/convolution/im2col_kernels.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized::convolution {
namespace {

// Elements of a packed block that streams from the second-level cache, and rows of it that are multiplied at a time.
constexpr std::int64_t block_elements = 64 * 1024, block_depth = 512;
// A weight gradient with fewer patch rows is also cut into chunks of images, at most this many.
constexpr std::int64_t few_patch_rows = 64, most_chunks = 16;
// Elements after a buffer that a vector may access.
constexpr std::int64_t slack = 64;
// Elements of an image with its padding: offsets in scratch memory are counted in 64 bits.
constexpr std::int64_t most_padded = std::int64_t{1} << 48;

/// The images of x with their padding: x itself if there is none, else a copy of the current image.
template <class T>
class Padded {
 public:
  Padded(const T* x, const Problem& problem, T* scratch) : x_(x), problem_(problem), scratch_(scratch) {}
  static std::int64_t scratch(const Problem& problem) {
    if (problem.padded() > most_padded)  // not `expects`: the text takes longer than a small convolution
      throw OutOfMemory(message(text_of(problem), ": the image with its padding is too large"));
    return problem.padded() + slack;
  }
  const T* image(std::int64_t n, std::int64_t group) {
    const std::int64_t size = problem_.C * problem_.plane(), number = n * problem_.groups + group;
    const T* const from = x_ + number * size;
    if (!pads()) return from;
    if (from != copied_) copy(from);
    copied_ = from;
    return scratch_;
  }
  /// The end of the readable memory after an image.
  const T* end() const {
    return pads() ? scratch_ + scratch(problem_) : x_ + problem_.N * problem_.groups * problem_.C * problem_.plane();
  }

 private:
  bool pads() const { return problem_.pad_h > 0 || problem_.pad_w > 0; }
  void copy(const T* from) {
    T* to = scratch_;
    const std::int64_t edge = problem_.pad_h * (problem_.W + 2 * problem_.pad_w);
    for (std::int64_t c = 0; c < problem_.C; ++c) {
      to = std::fill_n(to, edge, T{0});
      for (std::int64_t h = 0; h < problem_.H; ++h, from += problem_.W) {
        to = std::fill_n(to, problem_.pad_w, T{0});
        to = std::copy_n(from, problem_.W, to);
        to = std::fill_n(to, problem_.pad_w, T{0});
      }
      to = std::fill_n(to, edge, T{0});
    }
    std::fill_n(to, slack, T{0});
  }

  const T* x_;
  const Problem& problem_;
  T* scratch_;
  const T* copied_ = nullptr;
};

// ---- forward -------------------------------------------------------------------------------------------------------

template <class T>
class Im2colForward : public Plan<T> {
 public:
  Im2colForward(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays) {
    const std::int64_t width = gemm_kernels<T>().panel_width, K = std::max<std::int64_t>(problem.K(), 1);
    depth_ = divide_up(K, divide_up(K, block_depth));
    const std::int64_t images = problem.N * problem.groups, panels = divide_up(problem.positions(), width);
    if (images < 8 * problem.threads) {
      column_parts_ = std::min<std::int64_t>(problem.threads, panels);
      row_parts_ = std::clamp<std::int64_t>(problem.threads / std::max<std::int64_t>(1, images * column_parts_), 1,
                                            std::max<std::int64_t>(1, problem.O));
    }
    columns_ = std::clamp<std::int64_t>(block_elements / depth_ / width, 1, divide_up(panels, column_parts_)) * width;
    packed_ = round_up(depth_ * columns_, 16) + slack;
  }
  std::int64_t scratch() const override { return round_up(packed_ + Padded<T>::scratch(problem_), 16); }

  void run(const Team& team, int /*phase*/, T* /*shared*/, T* scratch) const override {
    Padded<T> padded(arrays_.in, problem_, scratch + packed_);
    const std::int64_t parts = problem_.N * problem_.groups * row_parts_ * column_parts_;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) run_part(part, padded, scratch);
  }

 private:
  void run_part(std::int64_t part, Padded<T>& padded, T* packed) const {
    const auto& kernels = gemm_kernels<T>();
    const auto& cut = im2col_kernels<T>().cut;
    const std::int64_t width = kernels.panel_width;
    const std::int64_t column_part = part % column_parts_;
    part /= column_parts_;
    const std::int64_t row_part = part % row_parts_;
    part /= row_parts_;
    const std::int64_t group = part % problem_.groups, n = part / problem_.groups;
    const std::int64_t panels = divide_up(problem_.positions(), width);
    const std::int64_t begin = panels * column_part / column_parts_ * width;
    const std::int64_t end = std::min(problem_.positions(), panels * (column_part + 1) / column_parts_ * width);
    const std::int64_t row = problem_.O * row_part / row_parts_, last_row = problem_.O * (row_part + 1) / row_parts_;
    const T* const image = padded.image(n, group);
    Block<T> block;
    block.m = last_row - row;
    block.a_row = problem_.K();
    block.a_column = 1;
    block.b = packed;
    block.b_row = width;
    block.c_row = problem_.positions();
    if (arrays_.bias != nullptr) block.row_bias = arrays_.bias + group * problem_.O + row;
    for (std::int64_t first = begin; first < end; first += columns_) {
      block.n = std::min(columns_, end - first);
      block.c = arrays_.out + ((n * problem_.groups + group) * problem_.O + row) * problem_.positions() + first;
      for (std::int64_t k = 0; k == 0 || k < problem_.K(); k += depth_) {
        block.k = std::min(depth_, problem_.K() - k);
        block.a = arrays_.weight + (group * problem_.O + row) * problem_.K() + k;
        block.b_panel = block.k * width;
        block.accumulate = k > 0;
        block.relu = clips(problem_.activation) && k + depth_ >= problem_.K();
        block.top = top_of<T>(problem_.activation);
        for (std::int64_t column = 0; column < block.n; column += width) {
          T* const panel = packed + column / width * block.b_panel;
          const std::int64_t count = std::min(width, block.n - column);
          cut({panel, width}, image, padded.end(), problem_, {k, k + block.k},
              {first + column, first + column + count});
          if (count < width)
            for (std::int64_t p = 0; p < block.k; ++p)
              std::fill(panel + p * width + count, panel + (p + 1) * width, T{0});
        }
        kernels.multiply(block);
      }
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  std::int64_t depth_ = 1, columns_ = 1, row_parts_ = 1, column_parts_ = 1, packed_ = 0;
};

// ---- the gradient of x ---------------------------------------------------------------------------------------------

/// weight^T g gives the gradient of the patches, block of output rows by block; pasting adds them to x.
template <class T>
class Im2colGradX : public Plan<T> {
 public:
  Im2colGradX(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays) {
    output_rows_ = std::clamp<std::int64_t>(256 / problem.OW, 1, problem.OH);
    columns_ = round_up(output_rows_ * problem.OW, gemm_kernels<T>().panel_width);
    channels_ = std::clamp<std::int64_t>(block_elements / 2 / (problem.taps() * columns_), 1,
                                         std::max<std::int64_t>(1, problem.C));
    if (problem.N * problem.groups < 8 * problem.threads)
      parts_ = std::clamp<std::int64_t>(problem.C, 1, problem.threads);
    packed_ = problem.O * columns_;
  }
  std::int64_t scratch() const override { return round_up(packed_ + channels_ * problem_.taps() * columns_, 16); }

  void run(const Team& team, int /*phase*/, T* /*shared*/, T* scratch) const override {
    const std::int64_t parts = problem_.N * problem_.groups * parts_;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) run_part(part, scratch);
  }

 private:
  void run_part(std::int64_t part, T* packed) const {
    const auto& kernels = gemm_kernels<T>();
    const auto& paste = im2col_kernels<T>().paste;
    const std::int64_t image = part / parts_, group = image % problem_.groups, n = image / problem_.groups;
    const std::int64_t first_channel = problem_.C * (part % parts_) / parts_;
    const std::int64_t last_channel = problem_.C * (part % parts_ + 1) / parts_;
    T* const planes = arrays_.out + (n * problem_.groups + group) * problem_.C * problem_.plane();
    std::fill(planes + first_channel * problem_.plane(), planes + last_channel * problem_.plane(), T{0});
    T* const gradient = packed + packed_;
    for (std::int64_t oh = 0; oh < problem_.OH; oh += output_rows_) {
      const std::int64_t last = std::min(oh + output_rows_, problem_.OH);
      Block<T> block;
      block.n = (last - oh) * problem_.OW;
      block.k = problem_.O;
      block.a_row = 1;
      block.a_column = problem_.K();
      block.b = packed;
      block.b_row = kernels.panel_width;
      block.b_panel = block.k * kernels.panel_width;
      block.c = gradient;
      block.c_row = columns_;
      const T* const g = arrays_.in + (n * problem_.groups + group) * problem_.O * problem_.positions();
      kernels.pack(packed, g + oh * problem_.OW, problem_.positions(), problem_.O, block.n);
      for (std::int64_t channel = first_channel; channel < last_channel; channel += channels_) {
        const std::int64_t channels = std::min(channels_, last_channel - channel);
        block.m = channels * problem_.taps();
        block.a = arrays_.weight + group * problem_.O * problem_.K() + channel * problem_.taps();
        kernels.multiply(block);
        for (std::int64_t c = 0; c < channels; ++c)
          paste(planes + (channel + c) * problem_.plane(), {gradient + c * problem_.taps() * columns_, columns_},
                problem_, {oh, last});
      }
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  std::int64_t output_rows_ = 1, columns_ = 1, channels_ = 1, parts_ = 1, packed_ = 0;
};

// ---- the gradient of weight ----------------------------------------------------------------------------------------

/// Dot products of g's rows with the patches' rows, over blocks of positions; if an image has few, a block spans
/// several images. Threads divide the patches' rows. If these are few, chunks of images, which follow from the shape
/// only, have separate sums that are added in order at the end.
template <class T>
class Im2colGradWeight : public Plan<T> {
 public:
  Im2colGradWeight(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays) {
    const std::int64_t K = problem.K(), positions = problem.positions();
    chunks_ = K < few_patch_rows ? std::min(problem.N, most_chunks) : 1;
    row_parts_ =
        std::clamp<std::int64_t>(divide_up(problem.threads, chunks_ * problem.groups), 1, std::max<std::int64_t>(1, K));
    images_ = std::clamp<std::int64_t>(most_positions / positions, 1, divide_up(problem.N, chunks_));
    positions_ = divide_up(positions, divide_up(positions, most_positions));
    // One extra vector: cutting writes past the end of a row, and power-of-two strides would collide in the cache.
    stride_ = round_up(images_ * positions_, 16) + 16;
    rows_ = std::clamp<std::int64_t>(block_elements / stride_, 1, std::max<std::int64_t>(1, divide_up(K, row_parts_)));
    gathered_ = images_ == 1 ? 0 : problem.O * stride_;
  }
  int phases() const override { return chunks_ == 1 ? 1 : 2; }
  std::int64_t shared() const override { return chunks_ == 1 ? 0 : chunks_ * weights(); }
  std::int64_t scratch() const override {
    return round_up(gathered_ + rows_ * stride_ + slack + Padded<T>::scratch(problem_), 16);
  }

  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    if (phase == 1) return add(team, shared);
    const std::int64_t parts = chunks_ * problem_.groups * row_parts_;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) run_part(part, scratch, shared);
  }

 private:
  std::int64_t weights() const { return problem_.groups * problem_.O * problem_.K(); }

  /// The chunks' sums.
  void add(const Team& team, const T* partials) const {
    const std::int64_t n = weights();
    for (std::int64_t i = team.begin(n, 16); i < team.end(n, 16); ++i) {
      T total = partials[i];
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) total += partials[chunk * n + i];
      arrays_.out[i] = total;
    }
  }

  void run_part(std::int64_t part, T* scratch, T* partials) const {
    const std::int64_t row_part = part % row_parts_;
    part /= row_parts_;
    const std::int64_t group = part % problem_.groups, chunk = part / problem_.groups;
    const std::int64_t K = problem_.K();
    const std::int64_t first_row = K * row_part / row_parts_, last_row = K * (row_part + 1) / row_parts_;
    T* const rows = scratch + gathered_;
    Padded<T> padded(arrays_.in, problem_, rows + rows_ * stride_ + slack);
    T* const out = (chunks_ == 1 ? arrays_.out : partials + chunk * weights()) + group * problem_.O * problem_.K();
    const std::int64_t begin = problem_.N * chunk / chunks_, end = problem_.N * (chunk + 1) / chunks_;
    for (std::int64_t n = begin; n < end; n += images_) {
      const std::int64_t images = std::min(images_, end - n);
      for (std::int64_t position = 0; position < problem_.positions(); position += positions_) {
        const std::int64_t positions = std::min(positions_, problem_.positions() - position);
        const T* g = arrays_.g + (n * problem_.groups + group) * problem_.O * problem_.positions() + position;
        if (images > 1) {
          for (std::int64_t i = 0; i < images; ++i)
            for (std::int64_t o = 0; o < problem_.O; ++o)
              std::copy_n(g + (i * problem_.groups * problem_.O + o) * problem_.positions(), positions,
                          scratch + o * stride_ + i * positions);
          g = scratch;
        }
        for (std::int64_t row = first_row; row < last_row; row += rows_) {
          const std::int64_t count = std::min(rows_, last_row - row);
          for (std::int64_t i = 0; i < images; ++i)
            im2col_kernels<T>().cut({rows + i * positions, stride_}, padded.image(n + i, group), padded.end(), problem_,
                                    {row, row + count}, {position, position + positions});
          const Run run{.k = images * positions};
          sum_kernels<T>().dots({.c = out + row,
                                 .c_row = problem_.K(),
                                 .a = g,
                                 .a_row = images > 1 ? stride_ : problem_.positions(),
                                 .b = rows,
                                 .b_row = stride_,
                                 .m = problem_.O,
                                 .n = count,
                                 .runs = &run,
                                 .run_count = 1,
                                 .accumulate = n > begin || position > 0});
        }
      }
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  std::int64_t chunks_ = 1, row_parts_ = 1, images_ = 1, positions_ = 1, stride_ = 1, rows_ = 1, gathered_ = 0;
};

// ---- the gradient of bias ------------------------------------------------------------------------------------------

template <class T>
class Im2colGradBias : public Plan<T> {
 public:
  Im2colGradBias(const Problem& problem, const Arrays<T>& arrays) : problem_(problem), arrays_(arrays) {}

  void run(const Team& team, int /*phase*/, T* /*shared*/, T* /*scratch*/) const override {
    const std::int64_t O = problem_.groups * problem_.O, positions = problem_.positions();
    for (std::int64_t o = team.begin(O); o < team.end(O); ++o) {
      T total{0};
      for (std::int64_t n = 0; n < problem_.N; ++n)
        total += sum_kernels<T>().sum(arrays_.g + (n * O + o) * positions, positions);
      arrays_.grad_bias[o] = total;
    }
  }

 private:
  Problem problem_;
  Arrays<T> arrays_;
};

}  // namespace

template <class T>
PlanPointer<T> im2col(const Problem& problem, const Arrays<T>& arrays) {
  if (problem.pass == Pass::grad_x) return std::make_unique<Im2colGradX<T>>(problem, arrays);
  if (problem.of_weight()) return std::make_unique<Im2colGradWeight<T>>(problem, arrays);
  if (problem.of_bias()) return std::make_unique<Im2colGradBias<T>>(problem, arrays);
  if (direct_fits(problem)) return direct(problem, arrays);
  return std::make_unique<Im2colForward<T>>(problem, arrays);
}
template PlanPointer<float> im2col(const Problem&, const Arrays<float>&);
template PlanPointer<double> im2col(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
