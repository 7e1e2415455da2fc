// Rows: convolutions of channels-last images whose lanes are channels, as products of patches, which are concatenated
// rows of an image, with the weights. A 1x1 convolution is a product of the image in place.

#include "vectorized/convolution/rows.hpp"

#include <algorithm>
#include <atomic>

#include "vectorized/convolution/finite.hpp"
#include "vectorized/convolution/patch_weights.hpp"
#include "vectorized/convolution/row_kernels.hpp"
#include "vectorized/finish.hpp"

namespace tern::vectorized::convolution {
namespace {

constexpr std::int64_t most_rows = 256;  // of a block

/// The forward pass, and the gradient of x if the kernel can be flipped: the positions of all images, one after
/// another, are the rows of a product.
template <class T>
class Rows : public Plan<T> {
 public:
  Rows(const Problem& problem, const Arrays<T>& arrays)
      : problem_(flipped(problem)), arrays_(arrays), plain_(problem_.plain()), K_(problem_.K()) {
    const std::int64_t tile = gemm_kernels<T>().tile_rows;
    const std::int64_t line = problem_.KW * problem_.C;
    depth_ = plain_ ? K_ : std::clamp<std::int64_t>(most_depth / line, 1, problem_.KH) * line;
    packed_ = {K_, problem_.O, depth_};
    weights_ = {problem_, arrays.weight, problem.pass == Pass::grad_x, packed_};
    block_ = plain_ && arrays.mask == nullptr ? rows_of_image() : block_of<T>(depth_);
    const std::int64_t tiles = divide_up(problem_.N * problem_.positions(), tile);
    share_ = share_rows(problem_, tiles, packed_.panels());
    const std::int64_t part = divide_up(tiles, std::max<std::int64_t>(share_.row_parts, 1)) * tile;
    patches_ = in_place(problem_.O) ? 0 : round_up(std::min(block_, part) * patch_row(), 16);
    if (!plain_ && arrays.mask != nullptr)
      image_ = round_up(problem_.plane() * round_up(problem_.C, gemm_kernels<T>().lanes), 16);
    patches_ = std::max(patches_, weights_.scratch());
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return weights_.size(); }
  std::int64_t scratch() const override { return patches_ + image_; }
  bool first_prepares_weights() const override { return true; }
  bool finishes() const override { return true; }
  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    phase == 0 ? weights_.prepare(team, shared, scratch) : multiply(team, shared, scratch);
  }

 private:
  /// Rows of an image in place that stay in the second-level cache with all their channels.
  std::int64_t rows_of_image() const {
    const std::int64_t tile = gemm_kernels<T>().tile_rows;
    const std::int64_t row_bytes = std::max<std::int64_t>(K_, 1) * static_cast<std::int64_t>(sizeof(T));
    return std::clamp<std::int64_t>(cache_share(1.25) / row_bytes, tile, most_rows);
  }
  /// Whether the image is a product's first factor as it lies. Rows whose elements collide in the first-level cache are
  /// copied for many outputs: the product of 197 x 3072 by 3072 x 768 went from 180 to 210 of 235 GFLOP/s.
  bool in_place(std::int64_t outputs) const {
    constexpr std::int64_t colliding = 1024, many = 16;
    const bool copies = outputs >= many * gemm_kernels<T>().panel_width &&
                        problem_.x_pitch * static_cast<std::int64_t>(sizeof(T)) % colliding == 0;
    return plain_ && arrays_.mask == nullptr && !copies;
  }
  std::int64_t patch_row() const { return (depth_ + 15) / 16 * 16 + 16; }

  void multiply(const Team& team, const T* weights, T* scratch) const {
    const std::int64_t all = problem_.N * problem_.positions(), tile = gemm_kernels<T>().tile_rows;
    const std::int64_t width = gemm_kernels<T>().panel_width, row_parts = share_.row_parts;
    const std::int64_t column_parts = share_.column_parts, parts = problem_.groups * row_parts * column_parts;
    const T* masked = nullptr;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t column = part % column_parts, row = part / column_parts % row_parts;
      const std::int64_t group = part / column_parts / row_parts;
      const std::int64_t output = edge(problem_.O, width, column_parts, column);
      const std::int64_t outputs = edge(problem_.O, width, column_parts, column + 1) - output;
      const std::int64_t begin = edge(all, tile, row_parts, row), end = edge(all, tile, row_parts, row + 1);
      if (outputs <= 0) continue;
      const std::int64_t blocks = divide_up(end - begin, block_);
      for (std::int64_t i = 0; i < blocks; ++i)
        run_block(group, {begin + (end - begin) * i / blocks, begin + (end - begin) * (i + 1) / blocks},
                  {output, output + outputs}, weights + group * packed_.size(), scratch, masked);
    }
  }

  /// Some of a group's outputs at some positions. `masked` is the image in scratch, if there is one.
  void run_block(std::int64_t group, Range positions, Range of_group, const T* weights, T* scratch,
                 const T*& masked) const {
    const auto [first, last] = positions;
    const std::int64_t output = of_group.first, outputs = of_group.count();
    Block<T> block;
    block.m = last - first;
    block.n = outputs;
    const bool in_place = this->in_place(outputs);
    block.a_row = in_place ? problem_.x_pitch : patch_row();
    block.a_column = 1;
    block.c = arrays_.out + first * problem_.y_pitch + group * problem_.O + output;
    block.c_row = problem_.y_pitch;
    block.top = top_of<T>(problem_.activation);
    if (arrays_.bias != nullptr) block.column_bias = arrays_.bias + group * problem_.O + output;
    for (std::int64_t k = 0; k < K_; k += depth_) {
      if (!in_place) gather(group, positions, k, scratch, masked);
      block.a = in_place ? arrays_.in + first * problem_.x_pitch + group * problem_.C : scratch;
      packed_.multiply(block, k, std::min(k + depth_, K_), output, weights, clips(problem_.activation));
    }
    if (arrays_.added == nullptr && arrays_.after == Activation::none) return;
    const std::int64_t channels = problem_.groups * problem_.O, channel = group * problem_.O + output;
    for (std::int64_t at = first; at < last; ++at)
      finish_kernels<T>().run(arrays_.out + at * problem_.y_pitch + channel,
                              arrays_.added == nullptr ? nullptr : arrays_.added + at * channels + channel, outputs,
                              arrays_.after);
  }

  /// Rows of k from `k` on of the patches.
  void gather(std::int64_t group, Range positions, std::int64_t k, T* scratch, const T*& masked) const {
    const auto& kernels = row_kernels<T>();
    const auto [first, last] = positions;
    if (plain_) {
      const std::int64_t at = first * problem_.x_pitch + group * problem_.C;
      kernels.copy({scratch, patch_row()}, {arrays_.in + at, problem_.x_pitch}, arrays_.mask_at(at), last - first,
                   problem_.C);
      return;
    }
    const std::int64_t line = problem_.KW * problem_.C, row = k / line;
    const std::int64_t last_row = std::min(row + depth_ / line, problem_.KH);
    Problem lying = problem_;  // the layout of the images that patches are cut out of
    if (arrays_.mask != nullptr) lying.x_pitch = round_up(problem_.C, gemm_kernels<T>().lanes);
    for_images(first, last, problem_.positions(),
               [&](std::int64_t n, std::int64_t at, std::int64_t count, std::int64_t before) {
                 const std::int64_t from = n * problem_.plane() * problem_.x_pitch + group * problem_.C;
                 const T* image = arrays_.in + from;
                 if (arrays_.mask != nullptr) {
                   T* const copy = scratch + patches_;
                   if (masked != image)
                     kernels.copy({copy, lying.x_pitch}, {image, problem_.x_pitch}, arrays_.mask + from,
                                  problem_.plane(), problem_.C);
                   masked = image;
                   image = copy;
                 }
                 kernels.gather({scratch + before * patch_row(), patch_row()}, image, lying, {row, last_row},
                                {at, at + count});
               });
  }

  Problem problem_;
  Arrays<T> arrays_;
  bool plain_;
  std::int64_t K_;
  std::int64_t depth_ = 1;  ///< k that are gathered together: whole rows of the kernel, or all of a plain one
  PackedWeights<T> packed_;
  PatchWeights<T> weights_;
  std::int64_t block_ = 1;  ///< positions
  RowsShare share_;
  std::int64_t patches_ = 0, image_ = 0;
};

template <class T>
bool all_finite(const T* values, std::int64_t n, int threads) {
  std::atomic<bool> finite{true};
  parallel(threads, [&](const Team& team) {
    if (!are_finite(values, team.begin(n, 16), team.end(n, 16))) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

}  // namespace

RowsShare share_rows(const Problem& flipped, std::int64_t tiles, std::int64_t panels) {
  const int threads = flipped.threads;
  RowsShare share{.row_parts = std::min<std::int64_t>(threads, tiles)};
  if (tiles >= 4 * threads) return share;
  // In products of a tile and a panel: the cost to cut patches out, and to fetch a panel.
  const double gather = flipped.plain() ? 0 : 0.15, fetch = 0.3;
  double best = -1;
  for (std::int64_t row_parts = share.row_parts; row_parts > 0; --row_parts) {
    const std::int64_t column_parts = std::min(threads / row_parts, panels);
    const auto rounds = static_cast<double>(divide_up(flipped.groups * row_parts * column_parts, threads));
    const auto rows = static_cast<double>(divide_up(tiles, row_parts));
    const auto columns = static_cast<double>(divide_up(panels, column_parts));
    const double cost = rounds * (rows * (columns + gather) + fetch * columns);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    share = {.row_parts = row_parts, .column_parts = column_parts};
  }
  return share;
}

template <class T>
bool zeros_are_harmless(const Problem& problem, const T* weight) {
  return problem.plain() || all_finite(weight, problem.groups * problem.O * problem.K(), problem.threads);
}

template bool zeros_are_harmless(const Problem&, const float*);
template bool zeros_are_harmless(const Problem&, const double*);

template <class T>
PlanPointer<T> rows(const Problem& problem, const Arrays<T>& arrays) {
  const bool forward = problem.pass == Pass::forward, to_x = problem.pass == Pass::grad_x;
  if (forward || (to_x && flips(problem) && zeros_are_harmless(problem, arrays.weight)))
    return std::make_unique<Rows<T>>(problem, arrays);
  return rows_gradient(problem, arrays);
}
template PlanPointer<float> rows(const Problem&, const Arrays<float>&);
template PlanPointer<double> rows(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
