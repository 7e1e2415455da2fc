// Taps: `rows` without cutting patches. The taps of a patch are read where they lie, and those over the padding are
// skipped; weights that are not finite are left to `rows`. The sums are those of `rows`, in the same order.

#include <algorithm>

#include "vectorized/convolution/patch_weights.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/convolution/skipping.hpp"

namespace tern::vectorized::convolution {
namespace {

template <class T>
class Taps : public Skipping<T> {
 public:
  Taps(const Problem& problem, const Arrays<T>& arrays)
      : Skipping<T>(problem, arrays),
        weights_(problem, arrays.weight, false, PackedWeights<T>::whole(problem.K(), problem.O)),
        chunks_(divide_up(problem.N, some_images)) {
    const std::int64_t panels = weights_.packed().panels(), items = problem.groups * chunks_ * problem.OH;
    if (items < 4 * problem.threads) panel_parts_ = std::min<std::int64_t>(problem.threads, panels);
    const std::int64_t row = round_up(problem.O, gemm_kernels<T>().panel_width) * static_cast<std::int64_t>(sizeof(T));
    depth_ = std::clamp<std::int64_t>(block_bytes() / row, least_depth, problem.K());
    const std::int64_t images = divide_up(problem.N, chunks_);
    together_ = depth_ == problem.K() ? 1 : std::max<std::int64_t>(cache_share(0.5) / (images * problem.OW * row), 1);
  }
  std::int64_t scratch() const override { return weights_.scratch(); }

 private:
  using Skipping<T>::problem_, Skipping<T>::arrays_, Skipping<T>::inside_;
  static constexpr std::int64_t least_depth = 128;

  std::int64_t packed() const override { return weights_.size(); }
  void pack(const Team& team, T* packed, T* scratch) const override { weights_.prepare(team, packed, scratch); }

  void multiply(const Team& team, const T* weights) const override {
    const std::int64_t OH = problem_.OH, items = problem_.groups * panel_parts_ * chunks_ * OH;
    for (std::int64_t item = team.begin(items), count = 0; item < team.end(items); item += count) {
      const std::int64_t row = item % OH, chunk = item / OH % chunks_, part = item / OH / chunks_ % panel_parts_;
      count = std::min({together_, OH - row, team.end(items) - item});
      run_rows(item / OH / chunks_ / panel_parts_, part, chunk, row, row + count, weights);
    }
  }

  /// Rows [first, last) of some images' outputs: as many k at a time as their weights stay in the cache.
  void run_rows(std::int64_t group, std::int64_t part, std::int64_t chunk, std::int64_t first, std::int64_t last,
                const T* weights) const {
    const auto& p = problem_;
    const PackedWeights<T>& packed = weights_.packed();
    const std::int64_t width = gemm_kernels<T>().panel_width, K = p.K();
    const std::int64_t output = edge(p.O, width, panel_parts_, part);
    Block<T> block;
    block.n = edge(p.O, width, panel_parts_, part + 1) - output;
    block.a_column = 1;
    block.b = packed.row(weights + group * packed.size(), output / width, 0);
    block.b_row = width;
    block.b_panel = K * width;
    block.top = top_of<T>(p.activation);
    if (arrays_.bias != nullptr) block.column_bias = arrays_.bias + group * p.O + output;
    for (std::int64_t k = 0; k < K; k += depth_) {
      block.accumulate = k > 0;
      block.relu = clips(p.activation) && k + depth_ >= K;
      const auto run = [&](const Run* runs, std::int64_t count, const Positions& at) {
        this->place(block, runs, count, at);
        block.c += output;
        if (count > 0 || k == 0 || block.relu) gemm_kernels<T>().multiply(block);
      };
      for (std::int64_t row = first; row < last; ++row)
        inside_.for_positions(group, row, {p.N * chunk / chunks_, p.N * (chunk + 1) / chunks_}, {k, k + depth_}, run);
    }
  }

  PatchWeights<T> weights_;
  std::int64_t chunks_, panel_parts_ = 1;
  std::int64_t depth_ = 1, together_ = 1;  ///< k, and rows of outputs, that are computed together
};

}  // namespace

bool taps_fit(const Problem& problem) {
  return problem.layout == Layout::channels_last && problem.pass == Pass::forward && problem.K() > 0;
}

// Cycles: chains of sums that are too few to hide a product's latency, or tiles that are too low to hide the weights'
// way from the second-level cache, take longer; and so do many short runs.
template <class T>
double taps_cycles(const Problem& p) {
  const AxisInside columns = inside_of(columns_of(p));
  const double vectors = static_cast<double>(divide_up(p.O, gemm_kernels<T>().lanes));
  const double images = static_cast<double>(p.N * p.groups), rows = inside_of(rows_of(p)).products();
  const std::int64_t together = std::min(p.N, some_images);
  const std::int64_t tile = vectors > 1 ? gemm_kernels<T>().tile_rows : gemm_kernels<T>().narrow_rows;
  const auto height = [&](std::int64_t outputs) {
    const std::int64_t positions = std::max(outputs, together);
    return static_cast<double>(positions) / static_cast<double>(divide_up(positions, tile));
  };
  const double products = columns.sum([&](std::int64_t outputs) {
    const double rows_of_tile = height(outputs);
    return std::max(8 / (rows_of_tile * std::min(vectors, 2.0)), 1.0) * (1 + 1 / rows_of_tile) /
           (1 + 1 / static_cast<double>(tile));
  });
  const bool whole = p.C == p.x_pitch && p.dilation_w == 1;  // a row of the kernel is one run
  const double tiles = columns.sum([&](std::int64_t outputs) { return 1 / height(outputs); });
  return images * rows *
             (0.62 * products * static_cast<double>(p.C) * vectors +
              20 * tiles / static_cast<double>(whole ? p.KW : 1) * std::max(vectors / 2, 1.0)) +
         images * (6 * static_cast<double>(p.positions()) * vectors + 45 * static_cast<double>(p.OH * p.KH));
}
template double taps_cycles<float>(const Problem&);
template double taps_cycles<double>(const Problem&);

template <class T>
PlanPointer<T> taps(const Problem& problem, const Arrays<T>& arrays) {
  return std::make_unique<Taps<T>>(problem, arrays);
}
template PlanPointer<float> taps(const Problem&, const Arrays<float>&);
template PlanPointer<double> taps(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
