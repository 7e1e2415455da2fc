// Dots: few outputs of many channels, channels last. Lanes are channels, and an output is the sum of dot products of
// runs of the image, where they lie, with the weights. Taps over the padding are skipped; weights that are not finite
// are left to `rows`.

#include <algorithm>
#include <cmath>

#include "vectorized/cache.hpp"
#include "vectorized/convolution/skipping.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized::convolution {
namespace {

constexpr double near_elements = 8 * 1024;  // beyond a usual first-level cache
/// Elements beyond the second-level cache.
template <class T>
double far_elements() {
  return static_cast<double>(cache_share(1.8)) / sizeof(T);
}

template <class T>
class DotProducts : public Skipping<T> {
 public:
  using Skipping<T>::Skipping;

 private:
  using Skipping<T>::problem_, Skipping<T>::arrays_, Skipping<T>::inside_;

  bool packs() const { return problem_.taps() > 1; }
  std::int64_t packed() const override { return packs() ? round_up(this->weights(), 16) : 0; }

  /// [O, C, taps] becomes [O, taps, C].
  void pack(const Team& team, T* packed, T* /*scratch*/) const override {
    if (!packs()) return;
    const std::int64_t all = problem_.groups * problem_.O, K = problem_.K(), C = problem_.C, taps = problem_.taps();
    for (std::int64_t o = team.begin(all); o < team.end(all); ++o)
      gemm_kernels<T>().transpose(packed + o * K, C, arrays_.weight + o * K, taps, C, taps);
  }

  void multiply(const Team& team, const T* packed) const override {
    const auto& p = problem_;
    const T* const weights = packs() ? packed : arrays_.weight;
    const std::int64_t chunks = divide_up(p.N, some_images), items = p.groups * chunks * p.OH;
    Dots<T> block{.b_row = p.K(), .n = p.O, .relu = clips(p.activation), .top = top_of<T>(p.activation)};
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t row = item % p.OH, chunk = item / p.OH % chunks, group = item / p.OH / chunks;
      block.b = weights + group * p.O * p.K();
      block.column_bias = arrays_.bias == nullptr ? nullptr : arrays_.bias + group * p.O;
      inside_.for_positions(group, row, {p.N * chunk / chunks, p.N * (chunk + 1) / chunks}, {0, p.K()},
                            [&](const Run* runs, std::int64_t count, const Positions& at) {
                              this->place(block, runs, count, at);
                              sum_kernels<T>().dots(block);
                            });
    }
  }
};

}  // namespace

bool dots_fit(const Problem& problem) {
  return problem.layout == Layout::channels_last && problem.pass == Pass::forward && problem.K() > 0;
}

// Cycles: a product loads its share of a tile's patches and weights, which takes twice as long from the second-level
// cache; patches of adjacent positions overlap, and come once. The lanes of each sum are added at the end. Weights
// beyond the second level are fetched for each row of outputs and each part of it, and such images once.
template <class T>
double dots_cycles(const Problem& p) {
  const AxisInside columns = inside_of(columns_of(p));
  const auto lanes = static_cast<double>(gemm_kernels<T>().lanes), C = static_cast<double>(p.C);
  const auto O = static_cast<double>(p.O), K = static_cast<double>(p.K());
  const double images = static_cast<double>(p.N * p.groups), rows = inside_of(rows_of(p)).products();
  const auto& kernels = sum_kernels<T>();
  const auto parts = static_cast<double>(divide_up(p.O, kernels.dot_columns));
  const double width = O / parts;
  const double row = static_cast<double>(p.KH * p.W) * C;    // of patches
  const bool whole = p.C == p.x_pitch && p.dilation_w == 1;  // a row of the kernel is one run
  const double vectors = whole ? C / lanes + 0.5 / static_cast<double>(p.KW) : std::ceil(C / lanes);
  const double runs = whole ? 1 / static_cast<double>(p.KW) : 1;
  // Of a product of two vectors, which wide vectors wait for longer, most where they cross lines; and of a run.
  const std::int64_t pitch = p.x_pitch, vector = gemm_kernels<T>().lanes;
  const double crossing = pitch % vector == 0 ? 0 : 2 * pitch % vector == 0 ? 0.3 : 1, run = 12;
  const double load = lanes * sizeof(T) > 32 ? 1.2 + 0.5 * crossing : 0.75 + 0.12 * crossing;
  constexpr double product = 0.62;
  const double loads = columns.sum([&](std::int64_t outputs) {
    const std::int64_t together = std::min(p.N, some_images);
    const auto positions = static_cast<double>(std::max(outputs, together));
    const double fitting = std::floor(static_cast<double>(kernels.dot_sums) / std::ceil(width));
    const double height = std::min({static_cast<double>(kernels.dot_rows), fitting, positions});
    const double far = width * K > near_elements ? 1 : O * K > near_elements ? height / positions : 0;
    const double patch = width < O && row > near_elements && outputs < together ? 2 : 1;
    return std::max(load * (patch / width + (1 + far) / height), product) * vectors * O + run * runs * parts / height;
  });
  const double visits = static_cast<double>(p.OH) * static_cast<double>(columns.count) / some_images;
  const double image = static_cast<double>(p.plane()) * C;
  return images *
         (rows * loads + static_cast<double>(p.positions()) * (2.8 * O + 4.4) + 40 * static_cast<double>(p.OH * p.KH) +
          (O * K > far_elements<T>() ? visits * O * K : 0) + (image > 2 * far_elements<T>() ? image / 2 : 0));
}
template double dots_cycles<float>(const Problem&);
template double dots_cycles<double>(const Problem&);

template <class T>
PlanPointer<T> dots(const Problem& problem, const Arrays<T>& arrays) {
  return std::make_unique<DotProducts<T>>(problem, arrays);
}
template PlanPointer<float> dots(const Problem&, const Arrays<float>&);
template PlanPointer<double> dots(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
