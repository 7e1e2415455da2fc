// The gradients of weight and bias by Winograd.

#include <algorithm>
#include <atomic>
#include <cmath>

#include "vectorized/cache.hpp"
#include "vectorized/chains.hpp"
#include "vectorized/convolution/winograd.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized::convolution {
namespace {

// The cost to fetch and store a sum, in products.
constexpr double sum_cycles = 10;

/// For every frequency, the product of the inputs' tiles and the gradients' tiles, summed over all tiles in order,
/// chain by chain. Threads divide blocks of channels and outputs, small enough that tiles and sums stay in the
/// second-level cache. If a value is not finite, another algorithm computes the gradients, as in Winograd.
template <class T>
class WinogradGradWeight : public Plan<T> {
 public:
  WinogradGradWeight(const Problem& problem, const Arrays<T>& arrays)
      : strided_(problem),
        problem_(space_to_depth(problem)),
        arrays_(arrays),
        kernels_(winograd_kernels<T>(problem_.KH)),
        tile_rows_(divide_up(problem.OH, kernels_->outputs)),
        tile_columns_(divide_up(problem.OW, kernels_->outputs)) {
    const std::int64_t C = problem_.C, O = problem_.O, threads = problem.threads;
    const std::int64_t m = kernels_->outputs, r = kernels_->taps, frequencies = kernels_->frequencies();
    const std::int64_t lanes = gemm_kernels<T>().lanes, panel = gemm_kernels<T>().panel_width;
    const std::int64_t all_rows = problem.N * tile_rows_;
    const std::int64_t room = cache_share(1.6) / (frequencies * static_cast<std::int64_t>(sizeof(T)));
    double best = -1;
    for (std::int64_t channel_parts = 1; channel_parts <= divide_up(C, lanes); ++channel_parts)
      for (std::int64_t output_parts = 1; output_parts <= divide_up(O, lanes); ++output_parts) {
        const std::int64_t channels = round_up(divide_up(C, channel_parts), lanes),
                           outputs = round_up(divide_up(O, output_parts), lanes);
        const std::int64_t fitting = (room - channels * outputs) / (channels + outputs) / tile_columns_;
        const std::int64_t rows = std::clamp<std::int64_t>(std::min(fitting, most_tiles / tile_columns_), 1, all_rows);
        const auto rounds = static_cast<double>(divide_up(problem.groups * channel_parts * output_parts, threads));
        const double product = product_cycles * (1 + sum_cycles / static_cast<double>(rows * tile_columns_));
        const double cost = rounds * (static_cast<double>(channels + outputs) * transform_cycles +
                                      static_cast<double>(channels * outputs) * product);
        if (best >= 0 && cost >= best) continue;
        best = cost;
        channel_parts_ = channel_parts;
        output_parts_ = output_parts;
        channels_ = channels;
        outputs_ = outputs;
        block_rows_ = rows;
      }
    const std::int64_t tiles = block_rows_ * tile_columns_;
    input_frequency_ = tiles * channels_ + apart;
    gradient_frequency_ = tiles * round_up(outputs_, panel) + apart;
    sum_frequency_ = channels_ * outputs_ + apart;
    inputs_ = input_frequency_ * frequencies;
    gradients_ = gradient_frequency_ * frequencies;
    sums_ = sum_frequency_ * frequencies;
    chain_rows_ = std::max<std::int64_t>(1, chain_length(all_rows * tile_columns_) / tile_columns_);
    later_ = chain_rows_ < all_rows ? sums_ : 0;
    bias_ = 2 * outputs_;
    const std::int64_t window = (std::min(block_rows_, tile_rows_) * m + r - 1) * (tile_columns_ * m + r - 1);
    window_ = round_up(std::max(window * std::max(window_channels(), outputs_), r * r * outputs_), 16);
  }
  std::int64_t scratch() const override { return inputs_ + gradients_ + sums_ + later_ + bias_ + window_; }
  void run(const Team& team, int /*phase*/, T* /*shared*/, T* scratch) const override {
    const std::int64_t parts = problem_.groups * channel_parts_ * output_parts_, lanes = gemm_kernels<T>().lanes;
    const std::int64_t C = problem_.C, O = problem_.O;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t c = part % channel_parts_, o = part / channel_parts_ % output_parts_;
      const std::int64_t channel = edge(C, lanes, channel_parts_, c), output = edge(O, lanes, output_parts_, o);
      run_part({part / channel_parts_ / output_parts_, channel, edge(C, lanes, channel_parts_, c + 1) - channel, output,
                edge(O, lanes, output_parts_, o + 1) - output},
               scratch);
    }
  }
  bool done() const override { return finite_.load(std::memory_order_relaxed); }

 private:
  /// A block of channels and outputs of one group.
  struct Part {
    std::int64_t group, channel, channels, output, outputs;
  };
  /// Channels of a window of x: those of a part, or all of one after space-to-depth.
  std::int64_t window_channels() const {
    return strided_.strided() ? round_up(problem_.C, gemm_kernels<T>().lanes) : channels_;
  }

  void run_part(const Part& part, T* scratch) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t all_rows = problem_.N * tile_rows_;
    T* const sums = scratch + inputs_ + gradients_;
    T* const later = sums + sums_;  // of a chain behind the first
    T* const bias = later + later_;
    std::fill_n(bias, outputs_, T{0});
    Block<T> block;
    block.m = part.channels;
    block.n = round_up(part.outputs, gemm.lanes);
    block.a_row = 1;
    block.a_column = channels_;
    block.b_row = gemm.panel_width;
    block.b_panel = block_rows_ * tile_columns_ * gemm.panel_width;
    block.c_row = outputs_;
    for (std::int64_t first = 0, last = 0; first < all_rows; first = last) {
      last = first + within_chain(first, all_rows, chain_rows_, block_rows_);
      transform(part, first, last, scratch);
      block.k = (last - first) * tile_columns_;
      block.accumulate = first % chain_rows_ > 0;
      for (std::int64_t f = 0; f < kernels_->frequencies(); ++f) {
        block.a = scratch + f * input_frequency_;
        block.b = scratch + inputs_ + f * gradient_frequency_;
        block.c = (first < chain_rows_ ? sums : later) + f * sum_frequency_;
        gemm.multiply(block);
      }
      if (last > chain_rows_ && (last % chain_rows_ == 0 || last == all_rows))
        for (std::int64_t f = 0; f < kernels_->frequencies(); ++f)
          add_chain(sums + f * sum_frequency_, outputs_, later + f * sum_frequency_, outputs_, block.m, block.n);
    }
    if (arrays_.grad_bias != nullptr && part.channel == 0)
      std::copy_n(bias, part.outputs, arrays_.grad_bias + part.group * problem_.O + part.output);
    finish(part, sums, bias + bias_);
  }

  void transform(const Part& part, std::int64_t first, std::int64_t last, T* scratch) const {
    const std::int64_t m = kernels_->outputs, size = kernels_->size(), panel = gemm_kernels<T>().panel_width;
    const std::int64_t outputs = round_up(part.outputs, gemm_kernels<T>().lanes);
    T* const gradients = scratch + inputs_;
    T* const bias = gradients + gradients_ + sums_ + later_;
    T* const window = bias + bias_;
    for_pieces(
        first, last, tile_rows_, tile_columns_,
        [&](std::int64_t n, std::int64_t row, std::int64_t rows, std::int64_t tile) {
          const Window<T> in{window,
                             row * m - problem_.pad_h,
                             -problem_.pad_w,
                             rows * m + problem_.KH - 1,
                             tile_columns_ * m + problem_.KW - 1,
                             window_channels()};
          if (strided_.strided()) {
            in.fill_space_to_depth(arrays_.in, n, strided_);
          } else {
            const std::int64_t from = n * problem_.plane() * problem_.x_pitch + part.group * problem_.C + part.channel;
            in.fill({arrays_.in + from, nullptr, problem_.x_pitch, problem_.W * problem_.x_pitch, part.channels,
                     problem_.H, problem_.W});
          }
          for (std::int64_t i = 0; i < rows; ++i)
            kernels_->input({.out = {scratch + (tile + i * tile_columns_) * channels_, size * input_frequency_,
                                     input_frequency_, channels_},
                             .in = in.squares(i * m, m, strided_.strided() ? part.channel : 0),
                             .count = tile_columns_,
                             .channels = channels_});

          const std::int64_t at = n * problem_.positions() * problem_.y_pitch + part.group * problem_.O + part.output;
          const Window<T> g{window, row * m, 0, rows * m, tile_columns_ * m, outputs};
          g.fill({arrays_.g + at, arrays_.mask_at(at), problem_.y_pitch, problem_.OW * problem_.y_pitch, part.outputs,
                  problem_.OH, problem_.OW});
          if (arrays_.grad_bias != nullptr && part.channel == 0)
            for (std::int64_t i = 0; i < rows; ++i) {  // in an order that does not depend on the cut
              sum_kernels<T>().column_sums(bias + outputs_, window + i * m * g.width * outputs, outputs, m * g.width,
                                           outputs);
              for (std::int64_t o = 0; o < outputs; ++o) bias[o] += bias[outputs_ + o];
            }
          for (std::int64_t o = 0; o < outputs; o += panel)
            for (std::int64_t i = 0; i < rows; ++i)
              kernels_->gradient(
                  {.out = {gradients + o * block_rows_ * tile_columns_ + (tile + i * tile_columns_) * panel,
                           size * gradient_frequency_, gradient_frequency_, panel},
                   .in = g.squares(i * m, m, o),
                   .count = tile_columns_,
                   .channels = std::min(panel, outputs - o)});
        });
  }

  void finish(const Part& part, const T* sums, T* taps) const {
    const std::int64_t r = kernels_->taps;
    bool finite = true;
    for (std::int64_t c = 0; c < part.channels; ++c) {
      finite &=
          kernels_->weight_gradient({.out = {taps, r * outputs_, outputs_},
                                     .in = {sums + c * outputs_, kernels_->size() * sum_frequency_, sum_frequency_},
                                     .channels = round_up(part.outputs, gemm_kernels<T>().lanes)});
      if (strided_.strided()) {
        depth_to_space(part, part.channel + c, taps);
        continue;
      }
      const std::int64_t first = (part.group * problem_.O + part.output) * problem_.C + part.channel + c;
      gemm_kernels<T>().transpose(arrays_.out + first * r * r, problem_.C * r * r, taps, outputs_, r * r, part.outputs);
    }
    if (!finite) finite_.store(false, std::memory_order_relaxed);
  }

  /// Moves the taps [r, r, outputs] of a space-to-depth channel to their places.
  void depth_to_space(const Part& part, std::int64_t channel, const T* taps) const {
    const std::int64_t C = strided_.C, KH = strided_.KH, KW = strided_.KW, side = strided_.stride_h;
    const std::int64_t c = channel % C, w = channel / C % side, h = channel / C / side;
    for (std::int64_t i = h; i < kernels_->taps * side; i += side)
      for (std::int64_t j = w; j < kernels_->taps * side; j += side, taps += outputs_)
        if (i < KH && j < KW)
          for (std::int64_t o = 0; o < part.outputs; ++o)
            arrays_.out[(((part.output + o) * C + c) * KH + i) * KW + j] = taps[o];
  }

  Problem strided_;  ///< may have a stride
  Problem problem_;  ///< after space-to-depth
  Arrays<T> arrays_;
  const WinogradKernels<T>* kernels_;
  std::int64_t tile_rows_, tile_columns_;
  std::int64_t channel_parts_ = 1, output_parts_ = 1;
  std::int64_t channels_ = 0, outputs_ = 0;  ///< the most per part; whole vectors
  std::int64_t block_rows_ = 1;              ///< tile rows that are transformed together
  std::int64_t input_frequency_ = 0, gradient_frequency_ = 0, sum_frequency_ = 0;
  std::int64_t chain_rows_ = 1;  ///< tile rows whose products are added in one chain
  std::int64_t inputs_ = 0, gradients_ = 0, sums_ = 0, later_ = 0, bias_ = 0, window_ = 0;
  mutable std::atomic<bool> finite_{true};
};

}  // namespace

template <class T>
double grad_weight_cycles(const Problem& problem) {
  const auto* kernels = winograd_kernels<T>(problem.KH);
  const auto C = static_cast<double>(problem.C), O = static_cast<double>(problem.O);
  const auto tiles = static_cast<double>(problem.N * divide_up(problem.OH, kernels->outputs) *
                                         divide_up(problem.OW, kernels->outputs));
  // Blocks of tiles of a typical size; channels are transformed for every block of outputs and, unless they are few,
  // vice versa.
  const double blocks = std::ceil(tiles / 48), repeats = 2, few_channels = 16;
  const double vectors = tiles * (C * repeats + O * (C <= few_channels ? 1 : repeats)) * transform_cycles +
                         C * O * (transform_cycles + (tiles + sum_cycles * blocks) * product_cycles);
  return static_cast<double>(problem.groups * kernels->frequencies()) * vectors /
         static_cast<double>(gemm_kernels<T>().lanes);
}

template <class T>
PlanPointer<T> winograd_grad_weight(const Problem& problem, const Arrays<T>& arrays) {
  return std::make_unique<WinogradGradWeight<T>>(problem, arrays);
}

template double grad_weight_cycles<float>(const Problem&);
template double grad_weight_cycles<double>(const Problem&);
template PlanPointer<float> winograd_grad_weight(const Problem&, const Arrays<float>&);
template PlanPointer<double> winograd_grad_weight(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
