// Lines: a convolution of few channels where the image lies, channels last. Lanes are outputs of a group or, where
// groups are small, of several adjacent ones; some adjacent outputs of a row are summed in registers, and each input is
// multiplied by all taps of a row of the kernel that read it. Taps over the padding are skipped; weights that are not
// finite are left to `rows`.

#include <algorithm>

#include "vectorized/cache.hpp"
#include "vectorized/convolution/group_line.hpp"
#include "vectorized/convolution/skipping.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {
namespace {

constexpr std::int64_t first_level_bytes = 24 * 1024;  // of weights
constexpr std::int64_t strip_rows = 8;                 // that are computed together

/// Which outputs a vector holds: of `groups` groups, or one of the `parts` of a group's.
struct Lanes {
  std::int64_t groups = 1, parts = 1;
};
template <class T>
Lanes lanes_of(const Problem& p) {
  const std::int64_t lanes = gemm_kernels<T>().lanes;
  // The channels of a vector's groups are loaded as one vector, which must lie in a position.
  const std::int64_t groups = std::min({lanes / p.O, lanes / p.C, p.groups});
  if (groups > 1 && p.groups * p.C >= lanes) return {.groups = groups};
  return {.parts = divide_up(p.O, lanes)};
}

/// Channels whose weights fit beside some of the image. Those of several groups in a vector are few.
template <class T>
std::int64_t depth_of(const Problem& p) {
  const std::int64_t bytes = p.taps() * gemm_kernels<T>().lanes * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t parts = divide_up(p.C * bytes, first_level_bytes);
  return lanes_of<T>(p).groups > 1 ? p.C : divide_up(p.C, parts);
}

template <class T>
class Lines : public Skipping<T> {
 public:
  Lines(const Problem& problem, const Arrays<T>& arrays)
      : Skipping<T>(problem, arrays),
        of_(lanes_of<T>(problem)),
        vectors_(divide_up(problem.groups, of_.groups) * of_.parts),
        some_rows_(problem.K() <= few_products ? std::clamp<std::int64_t>(56 / problem.OW, 1, strip_rows) : strip_rows),
        depth_(depth_of<T>(problem)) {
    const Axis rows = rows_of(problem);
    for (std::int64_t row = 0; row < problem.OH; ++row) {
      for (const TapAt& tap : taps_of_row(rows, row))
        taps_.push_back({tap.input * problem.W * problem.x_pitch, tap.tap * problem.KW * lanes_});
      row_ends_.push_back(static_cast<std::int64_t>(taps_.size()));
    }
    const Axis columns = columns_of(problem);
    const std::int64_t step = columns.line_phases(), most = kernels_.most_outputs(problem.KW);
    for (std::int64_t phase = 0; phase < std::min(step, problem.OW); ++phase) {
      const std::int64_t count = divide_up(problem.OW - phase, step), tiles = divide_up(count, most);
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t begin = count * tile / tiles, outputs = count * (tile + 1) / tiles - begin;
        const std::int64_t output = phase + begin * step, input = output * columns.stride - columns.pad;
        tiles_.push_back({output, input, outputs, columns.line_inside(input, outputs)});
      }
    }
    if (of_.groups > 1)
      for (std::int64_t c = 0; c < problem.C; ++c)
        for (std::int64_t lane = 0; lane < lanes_; ++lane)
          places_.push_back(static_cast<PlaceOf<T>>(std::min(lane / problem.O, of_.groups - 1) * problem.C + c));
  }

 private:
  using Skipping<T>::problem_, Skipping<T>::arrays_;
  // Up to so many products, outputs take longer to write than to compute, and are written by whole rows.
  static constexpr std::int64_t few_products = 50;

  /// Adjacent outputs, `columns.line_phases()` apart, from column `output` on; their inputs begin at `input`.
  struct Tile {
    std::int64_t output, input, outputs;
    std::uint64_t inside;
  };

  std::int64_t packed() const override { return vectors_ * problem_.K() * lanes_; }

  /// For each vector [C, KH, KW, lanes].
  void pack(const Team& team, T* packed, T* /*scratch*/) const override {
    const std::int64_t K = problem_.K();
    for (std::int64_t vector = team.begin(vectors_); vector < team.end(vectors_); ++vector) {
      const auto [first, count] = outputs_of(vector);
      T* const to = packed + vector * K * lanes_;
      if (count < lanes_) std::fill_n(to, K * lanes_, T{0});
      gemm_kernels<T>().transpose(to, lanes_, arrays_.weight + first * K, K, count, K);
    }
  }

  /// The first of a vector's outputs, and how many.
  std::pair<std::int64_t, std::int64_t> outputs_of(std::int64_t vector) const {
    const std::int64_t O = problem_.O;
    if (of_.parts > 1) {
      const std::int64_t group = vector / of_.parts, output = vector % of_.parts * lanes_;
      return {group * O + output, std::min(lanes_, O - output)};
    }
    const std::int64_t group = vector * of_.groups;
    return {group * O, std::min(of_.groups, problem_.groups - group) * O};
  }

  void multiply(const Team& team, const T* weights) const override {
    const std::int64_t strips = divide_up(problem_.OH, some_rows_), items = problem_.N * strips * vectors_;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t strip = item / vectors_ % strips, first = strip * some_rows_;
      run_strip(item / vectors_ / strips, first, std::min(first + some_rows_, problem_.OH), item % vectors_, weights);
    }
  }

  /// Rows [first, last) of a vector's outputs.
  void run_strip(std::int64_t image, std::int64_t first, std::int64_t last, std::int64_t vector,
                 const T* weights) const {
    const auto& p = problem_;
    const Axis columns = columns_of(p);
    const auto [output, count] = outputs_of(vector);
    GroupLine<T> line;
    line.weights = weights + vector * p.K() * lanes_;
    line.bias = arrays_.bias == nullptr ? nullptr : arrays_.bias + output;
    line.taps = p.KW;
    line.stride = columns.line_stride();
    line.channels = count;
    line.in_step = p.dilation_w * p.x_pitch;
    line.out_step = columns.line_phases() * p.y_pitch;
    line.weight_step = lanes_;
    line.depth_step = p.taps() * lanes_;
    std::int64_t channel = output / p.O * p.C;
    Pooled<PlaceOf<T>> shifted;
    if (of_.groups > 1) {
      line.places = places_.data();
      if (const std::int64_t over = channel + lanes_ - p.groups * p.C; over > 0) {  // the last vector lies further left
        shifted = places_;
        for (PlaceOf<T>& place : shifted)
          place = static_cast<PlaceOf<T>>(std::min<std::int64_t>(place + over, lanes_ - 1));
        line.places = shifted.data();
        channel -= over;
      }
    }
    const T* const in = arrays_.in + image * p.plane() * p.x_pitch + channel;
    T* const out = arrays_.out + image * p.positions() * p.y_pitch + output;
    for (std::int64_t c = 0; c < p.C; c += depth_) {
      line.depth = std::min(depth_, p.C - c);
      line.accumulate = c > 0;
      line.activation = c + depth_ < p.C ? Activation::none : p.activation;
      run_tiles(line, {in + c, out}, {first, last});
      line.weights += depth_ * line.depth_step;
    }
  }

  struct Ends {
    const T* in;
    T* out;
  };
  /// Rows of all tiles.
  void run_tiles(GroupLine<T>& line, Ends image, Range rows) const {
    const auto& p = problem_;
    for (const Tile& tile : tiles_) {
      line.outputs = tile.outputs;
      line.inside = tile.inside;
      line.in = image.in + tile.input * p.x_pitch;
      for (std::int64_t row = rows.first; row < rows.last; ++row) {
        const std::int64_t begin = row == 0 ? 0 : row_ends_[static_cast<std::size_t>(row - 1)];
        line.rows = taps_.data() + begin;
        line.row_count = row_ends_[static_cast<std::size_t>(row)] - begin;
        line.out = image.out + (row * p.OW + tile.output) * p.y_pitch;
        kernels_.run(line);
      }
    }
  }

  const GroupLineKernels<T>& kernels_ = group_line_kernels<T>();
  std::int64_t lanes_ = gemm_kernels<T>().lanes;
  Lanes of_;
  std::int64_t vectors_, some_rows_;  ///< rows that are computed together
  std::int64_t depth_;                ///< and channels, whose weights stay in the first-level cache
  Pooled<DepthwiseTap> taps_;         ///< rows of the kernel for each row of outputs
  Pooled<std::int64_t> row_ends_;
  Pooled<Tile> tiles_;
  Pooled<PlaceOf<T>> places_;
};

}  // namespace

bool lines_fit(const Problem& problem) {
  return problem.layout == Layout::channels_last && problem.pass == Pass::forward && problem.K() > 0 &&
         problem.N * problem.groups * problem.O * problem.positions() > 0 &&
         group_line_fits(problem.KW, columns_of(problem).line_stride());
}

// Cycles: two products, or changes of places, at a time, where there are sums enough to hide a product's latency; what
// each input takes, and each vector of outputs, more beyond the second-level cache, from where weights are fetched for
// each strip of rows.
template <class T>
double lines_cycles(const Problem& p) {
  const Axis columns = columns_of(p);
  const Lanes of = lanes_of<T>(p);
  const std::int64_t phases = std::min(columns.line_phases(), p.OW), stride = columns.line_stride();
  std::int64_t tiles = 0;
  for (std::int64_t phase = 0; phase < phases; ++phase)
    tiles += divide_up(divide_up(p.OW - phase, columns.line_phases()), group_line_kernels<T>().most_outputs(p.KW));
  const auto inputs = static_cast<double>(
      std::max(p.OW * stride + tiles * (p.KW - stride) - phases * 2 * (p.pad_w / p.dilation_w), p.OW));
  const double each = inside_of(columns).products() + (of.groups > 1 ? inputs : 0);
  const double products = std::max(each / 2, 4 * static_cast<double>(tiles * p.KW));
  const auto vectors = static_cast<double>(p.N * divide_up(p.groups, of.groups) * of.parts);
  const double rows = inside_of(rows_of(p)).products() * static_cast<double>(p.C);
  const std::int64_t vector = gemm_kernels<T>().lanes * p.element, bytes = p.N * p.positions() * p.y_pitch * p.element;
  const double store = 9 + (bytes > 2 * block_bytes() ? 0.12 * static_cast<double>(vector) : 0);
  const auto parts = static_cast<double>(divide_up(p.C, depth_of<T>(p)));
  const std::int64_t all = divide_up(p.groups, of.groups) * of.parts * p.K() * gemm_kernels<T>().lanes;
  const bool far = all * p.element > 2 * block_bytes();
  const double fetched = static_cast<double>(p.N * divide_up(p.OH, strip_rows) * all);
  return vectors * (rows * (0.88 * products + 0.46 * inputs) +
                    (store + 4 * (parts - 1)) * static_cast<double>(p.positions())) +
         (far ? 0.35 * fetched : 0);
}
template double lines_cycles<float>(const Problem&);
template double lines_cycles<double>(const Problem&);

template <class T>
PlanPointer<T> lines(const Problem& problem, const Arrays<T>& arrays) {
  return std::make_unique<Lines<T>>(problem, arrays);
}
template PlanPointer<float> lines(const Problem&, const Arrays<float>&);
template PlanPointer<double> lines(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
