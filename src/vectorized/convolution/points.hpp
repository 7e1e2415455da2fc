#pragma once
// 1x1 convolutions of positions in scratch memory, for kernels that compute several convolutions.

#include "vectorized/clip.hpp"
#include "vectorized/convolution/packed_weights.hpp"
#include "vectorized/finish.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::convolution {

using kernels::Activation;

/// The weights and the epilogue of a convolution.
template <class T>
struct Layer {
  const T *weight = nullptr, *bias = nullptr;
  Activation activation = Activation::none;
};

/// What kernels that sum leave out: y = activation(y + added), of `count` positions. Nothing may be added.
template <class T>
void finish_positions(Pitched<T> y, Pitched<const T> added, std::int64_t channels, std::int64_t count,
                      Activation activation) {
  if (added.at == nullptr && activation == Activation::none) return;
  const auto& kernels = finish_kernels<T>();
  if (y.pitch == channels && (added.at == nullptr || added.pitch == channels))
    return kernels.run(y.at, added.at, count * channels, activation);
  for (std::int64_t at = 0; at < count; ++at)
    kernels.run(y.row(at), added.at == nullptr ? nullptr : added.row(at), channels, activation);
}

template <class T>
class Points {
 public:
  Points(std::int64_t in, std::int64_t out, const Layer<T>& layer)
      : in_(in), out_(out), layer_(layer), packed_(in, out, in) {}
  std::int64_t size() const { return round_up(packed_.size(), 16); }
  std::int64_t panels() const { return packed_.panels(); }

  void pack(const Team& team, T* packed) const {
    const std::int64_t width = gemm_kernels<T>().panel_width, panels = packed_.panels();
    for (std::int64_t panel = team.begin(panels); panel < team.end(panels); ++panel)
      packed_.for_blocks(0, in_, [&](std::int64_t c, std::int64_t count) {
        gemm_kernels<T>().pack_transposed(packed_.row(packed, panel, c), layer_.weight + panel * width * in_ + c, in_,
                                          count, std::min(width, out_ - panel * width));
      });
  }

  /// Some outputs of `count` positions, which begin at a panel; all pointers are at the first of all outputs. Positions
  /// of `added` lie `out` elements apart; it may be null.
  void run(Pitched<T> y, Pitched<const T> x, std::int64_t count, const T* packed, const T* added, Range some) const {
    const std::int64_t first = some.first, outputs = some.count();
    const bool inside = added == nullptr && clips(layer_.activation);
    Block<T> block;
    block.m = count;
    block.n = outputs;
    block.a = x.at;
    block.a_row = x.pitch;
    block.a_column = 1;
    block.c = y.at + first;
    block.c_row = y.pitch;
    block.top = top_of<T>(layer_.activation);
    block.column_bias = layer_.bias == nullptr ? nullptr : layer_.bias + first;
    packed_.multiply(block, 0, in_, first, packed, inside);
    if (!inside)
      finish_positions<T>({y.at + first, y.pitch}, {added == nullptr ? nullptr : added + first, out_}, outputs, count,
                          layer_.activation);
  }

 private:
  std::int64_t in_, out_;
  Layer<T> layer_;
  PackedWeights<T> packed_;
};

}  // namespace tern::vectorized::convolution
