#include "vectorized/convolution/inverted_residual.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tern/kernels/algorithms.hpp"
#include "vectorized/convolution/choice.hpp"
#include "vectorized/convolution/depthwise_rows.hpp"
#include "vectorized/convolution/kept.hpp"
#include "vectorized/convolution/points.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized::convolution {
namespace {

using kernels::InvertedResidual;

constexpr const char* residual_name = "inverted_residual";  // the decision

template <class T>
struct Block3 {
  T* y = nullptr;
  const T *x = nullptr, *added = nullptr;
  Layer<T> expand, depthwise, project;
};

/// A few rows of an image at a time. Rows that the first convolution computed stay for the next ones in a ring. If a
/// team shares one image of few rows, neighbours would compute many of the same expanded rows. Then it divides the
/// channels instead and, behind a barrier, the outputs.
template <class T>
class Fused : public Plan<T> {
 public:
  Fused(const InvertedResidual& shape, const Problem& middle, const Block3<T>& arrays)
      : shape_(shape),
        middle_(middle),
        arrays_(arrays),
        expands_(shape.expand.O > 0),
        expand_(shape.expand.C, shape.expand.O, arrays.expand),
        project_(shape.project.C, shape.project.O, arrays.project),
        pitch_(spread(shape.depthwise.C)),
        rows_(middle, expands_ ? pitch_ : middle.x_pitch, pitch_, padded_channels<T>(middle), expands_) {
    const kernels::Conv2d& own = shape.depthwise;
    by_channels_ = expands_ && shares_channels();
    const std::int64_t line = own.W * pitch_, out_line = own.OW * pitch_;
    together_ = rows_together(expands_ ? line : 0, out_line);
    ring_ = (together_ - 1) * own.stride_h + own.KH;
    ring_size_ = expands_ ? round_up(ring_ * line, 16) : 0;
    sums_size_ = round_up(together_ * out_line, 16);
  }
  int phases() const override { return by_channels_ ? 3 : 2; }
  std::int64_t shared() const override { return depthwise_size() + expand_size() + project_.size(); }
  std::int64_t scratch() const override { return by_channels_ ? 0 : ring_size_ + sums_size_; }
  bool first_prepares_weights() const override { return true; }

  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    if (phase > 0 && by_channels_) return phase == 1 ? run_channels(team, shared) : run_outputs(team, shared);
    if (phase > 0) return multiply(team, shared, scratch);
    pack_depthwise(team, shared, arrays_.depthwise.weight, middle_);
    if (expands_) expand_.pack(team, shared + depthwise_size());
    project_.pack(team, shared + depthwise_size() + expand_size());
  }

  /// Elements of what lies between the convolutions, if the parts share it.
  std::int64_t between() const { return by_channels_ ? wide_size() + middle_.positions() * pitch_ : 0; }
  void set_between(T* elements) { between_ = elements; }

 private:
  /// Output rows of a step: as many as stay in the second-level cache, or more where that moves fewer bytes, because
  /// each step reads all weights once more.
  std::int64_t rows_together(std::int64_t line, std::int64_t out_line) const {
    const kernels::Conv2d& own = shape_.depthwise;
    constexpr auto element = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t fixed = own.KH * line, each = own.stride_h * line + out_line;
    const std::int64_t fitting = (cache_share(0.6) / element - fixed) / std::max<std::int64_t>(each, 1);
    const std::int64_t weights = shared() * element, wide = (own.H * line + own.OH * out_line) * element;
    const auto moved = [&](std::int64_t rows) {
      const std::int64_t between = (fixed + rows * each) * element, steps = divide_up(own.OH, rows);
      return (weights + between > cache_share(2) ? weights * steps : weights) +
             (between > cache_share(1.2) ? 2 * wide : 0);
    };
    std::int64_t best = std::clamp<std::int64_t>(fitting, 1, own.OH);
    for (std::int64_t rows = best + 1; rows <= own.OH; ++rows)
      if (moved(rows) < moved(best)) best = rows;
    return divide_up(own.OH, divide_up(own.OH, best));
  }
  /// Elements from one position to the next: an odd number of cache lines, so that positions use all of the cache.
  static std::int64_t spread(std::int64_t channels) {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    return (divide_up(channels, line) | 1) * line;
  }
  std::int64_t depthwise_size() const { return middle_.taps() * padded_channels<T>(middle_); }
  std::int64_t expand_size() const { return expands_ ? expand_.size() : 0; }
  std::int64_t wide_size() const { return round_up(middle_.plane() * pitch_, 16); }
  const T* project_weights(const T* weights) const { return weights + depthwise_size() + expand_size(); }
  RowsShare share_outputs() const {
    Problem points = middle_;
    points.groups = points.KH = points.KW = 1;
    points.C = shape_.project.C;
    points.O = shape_.project.O;
    points.stride_h = points.stride_w = 1;
    points.pad_h = points.pad_w = 0;
    return share_rows(points, divide_up(middle_.positions(), gemm_kernels<T>().tile_rows), project_.panels());
  }

  /// Whether parts that share channels have less to multiply than parts that share rows.
  bool shares_channels() const {
    const Problem& p = middle_;
    if (p.threads < 2 || p.N > 1) return false;
    const auto bytes = (wide_size() + p.positions() * pitch_) * static_cast<std::int64_t>(sizeof(T));
    if (bytes / p.threads > cache_share(1)) return false;
    const auto part = [](std::int64_t items, std::int64_t parts) {  // of them, the largest
      return static_cast<double>(divide_up(items, parts)) / static_cast<double>(items);
    };
    const std::int64_t last = divide_up(p.OH, p.threads);
    const std::int64_t rows = std::min(p.H, (last - 1) * p.stride_h + p.KH - std::min(p.pad_h, p.KH - 1));
    const auto expand = static_cast<double>(p.plane() * shape_.expand.C), out = static_cast<double>(p.positions());
    const double each = 2 * out * static_cast<double>(p.taps()), project = out * static_cast<double>(shape_.project.O);
    const double by_rows = expand * static_cast<double>(rows) / static_cast<double>(p.H) +
                           (each + project) * static_cast<double>(last) / static_cast<double>(p.OH);
    const RowsShare share = share_outputs();
    const double outputs = part(divide_up(p.positions(), gemm_kernels<T>().tile_rows), share.row_parts) *
                           part(project_.panels(), share.column_parts);
    return (expand + each) * part(expand_.panels(), p.threads) + project * outputs < 0.95 * by_rows;
  }

  /// Of a part's channels the first convolution and the depthwise one.
  void run_channels(const Team& team, const T* weights) const {
    const std::int64_t width = gemm_kernels<T>().panel_width, C = shape_.expand.C;
    const std::int64_t first = team.begin(middle_.groups, width), count = team.end(middle_.groups, width) - first;
    if (count <= 0) return;
    T *const wide = between_, *const sums = between_ + wide_size();
    expand_.run({wide, pitch_}, {arrays_.x, C}, middle_.plane(), weights + depthwise_size(), nullptr,
                {first, first + count});
    DepthwiseRows<T> strip = rows_;
    for (std::int64_t row = 0; row < middle_.OH; ++row) strip.add(row, row, [](std::int64_t input) { return input; });
    const Layer<T>& own = arrays_.depthwise;
    strip.run(sums + first, wide + first, nullptr, weights + first, own.bias == nullptr ? nullptr : own.bias + first,
              count);
    if (!clips(own.activation))
      finish_positions<T>({sums + first, pitch_}, {}, count, middle_.positions(), own.activation);
  }

  /// A part's positions and outputs of the last one.
  void run_outputs(const Team& team, const T* weights) const {
    const RowsShare share = share_outputs();
    const std::int64_t tile = gemm_kernels<T>().tile_rows, width = gemm_kernels<T>().panel_width, O = shape_.project.O;
    const std::int64_t all = middle_.positions(), parts = share.row_parts * share.column_parts;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
      const std::int64_t column = part % share.column_parts, row = part / share.column_parts;
      const std::int64_t begin = edge(all, tile, share.row_parts, row), end = edge(all, tile, share.row_parts, row + 1);
      const std::int64_t first = edge(O, width, share.column_parts, column);
      const std::int64_t count = edge(O, width, share.column_parts, column + 1) - first;
      if (count <= 0 || begin >= end) continue;
      project_.run({arrays_.y + begin * O, O}, {between_ + wide_size() + begin * pitch_, pitch_}, end - begin,
                   project_weights(weights), arrays_.added == nullptr ? nullptr : arrays_.added + begin * O,
                   {first, first + count});
    }
  }

  void multiply(const Team& team, const T* weights, T* scratch) const {
    const std::int64_t rows = middle_.N * middle_.OH;
    DepthwiseRows<T> strip = rows_;
    for (std::int64_t row = team.begin(rows); row < team.end(rows);) {
      const std::int64_t image = row / middle_.OH, first = row % middle_.OH;
      const std::int64_t last = std::min(middle_.OH, first + team.end(rows) - row);
      std::int64_t expanded = 0;  // rows of the image
      for (std::int64_t at = first; at < last; at += together_)
        run_rows(strip, image, {at, std::min(at + together_, last)}, expanded, weights, scratch);
      row += last - first;
    }
  }

  /// Some output rows of an image, of which `expanded` rows of inputs have been seen.
  void run_rows(DepthwiseRows<T>& strip, std::int64_t image, Range rows, std::int64_t& expanded, const T* weights,
                T* scratch) const {
    const Problem& p = middle_;
    const auto [first, last] = rows;
    const T* in = arrays_.x + image * p.plane() * (expands_ ? shape_.expand.C : p.x_pitch);
    if (expands_) {
      const std::int64_t begin = std::clamp<std::int64_t>(first * p.stride_h - p.pad_h, 0, p.H);
      const std::int64_t end = std::clamp<std::int64_t>((last - 1) * p.stride_h - p.pad_h + p.KH, begin, p.H);
      expand_rows(in, std::max(begin, expanded), end, weights + depthwise_size(), scratch);
      expanded = std::max(expanded, end);
      in = scratch;
    }
    T* const sums = scratch + ring_size_;
    strip.clear();
    for (std::int64_t row = first; row < last; ++row)
      strip.add(row, row - first, [&](std::int64_t input) { return expands_ ? input % ring_ : input; });
    strip.run(sums, in, nullptr, weights, arrays_.depthwise.bias, p.groups);
    const std::int64_t count = (last - first) * p.OW, at = (image * p.OH + first) * p.OW, O = shape_.project.O;
    if (const Activation activation = arrays_.depthwise.activation; !clips(activation))
      finish_positions<T>({sums, pitch_}, {}, p.groups, count, activation);
    project_.run({arrays_.y + at * O, O}, {sums, pitch_}, count, project_weights(weights),
                 arrays_.added == nullptr ? nullptr : arrays_.added + at * O, {0, O});
  }

  /// Rows [begin, end) of an image into their places in the ring.
  void expand_rows(const T* image, std::int64_t begin, std::int64_t end, const T* weights, T* ring) const {
    const std::int64_t W = middle_.W, C = shape_.expand.C;
    while (begin < end) {
      const std::int64_t place = begin % ring_, count = std::min(end - begin, ring_ - place);
      expand_.run({ring + place * W * pitch_, pitch_}, {image + begin * W * C, C}, count * W, weights, nullptr,
                  {0, middle_.groups});
      begin += count;
    }
  }

  InvertedResidual shape_;
  Problem middle_;  ///< the depthwise one
  Block3<T> arrays_;
  bool expands_, by_channels_ = false;
  T* between_ = nullptr;
  Points<T> expand_, project_;
  std::int64_t pitch_;
  DepthwiseRows<T> rows_;
  std::int64_t together_ = 1, ring_ = 1, ring_size_ = 0, sums_size_ = 0;
};

template <class T>
std::array<Problem, 3> problems_of(const Context& context, const InvertedResidual& shape) {
  std::array<Problem, 3> all;
  std::size_t i = 0;
  for (const kernels::Conv2d* each : {&shape.expand, &shape.depthwise, &shape.project})
    all[i++] = problem_of(context, *each, Pass::forward, sizeof(T));
  return all;
}

/// What the packed weights depend on.
Problem of_weights(const InvertedResidual& shape) {
  return {.groups = shape.depthwise.C,
          .C = shape.expand.C,
          .O = shape.project.O,
          .KH = shape.depthwise.KH,
          .KW = shape.depthwise.KW};
}

/// Padding's zeros, which the kernels skip, make NaN of weights that are not finite: the three kernels in turn.
template <class T>
void in_turn(Context& context, const Block3<T>& arrays, const InvertedResidual& shape) {
  struct Outer {
    const kernels::WeightVersion* const version = std::exchange(kernels::weight_version, nullptr);
    ~Outer() { kernels::weight_version = version; }
  } const outer;
  const kernels::Conv<T> table = vectorized::conv<T>();
  const auto elements = [](const kernels::Conv2d& s) { return static_cast<std::size_t>(s.N * s.OH * s.OW * s.O); };
  const bool expands = shape.expand.O > 0;
  const Scratch first(context, expands ? elements(shape.expand) * sizeof(T) : 0);
  const Scratch second(context, elements(shape.depthwise) * sizeof(T));
  const auto& [y, x, added, expand, depthwise, project] = arrays;
  if (expands) table.conv2d(context, first.as<T>(), x, expand.weight, expand.bias, shape.expand);
  table.conv2d(context, second.as<T>(), expands ? first.as<T>() : x, depthwise.weight, depthwise.bias, shape.depthwise);
  if (added == nullptr) return table.conv2d(context, y, second.as<T>(), project.weight, project.bias, shape.project);
  table.conv2d_add(context, y, second.as<T>(), project.weight, project.bias, added, shape.project);
}

}  // namespace

template <class T>
bool fuses_inverted_residual(const Context& context, const InvertedResidual& shape) {
  const bool some = shape.project.N * shape.project.O * shape.project.C * shape.project.OH * shape.project.OW > 0;
  const std::string_view forced = forced_algorithm(context, residual_name);
  bool fuses = some && shape.project.C > 1 && forced != "composed";
  constexpr std::array<std::string_view, 3> names{"rows", "depthwise", "rows"};
  std::array<Problem, 3> problems = problems_of<T>(context, shape);
  for (std::size_t i = shape.expand.O > 0 ? 0 : 1; fuses && i < problems.size(); ++i) {
    Problem& problem = problems[i];
    fuses = forced == "fused" || choose_layout<T>(context, problem) == Layout::channels_last;
    problem.layout = Layout::channels_last;
    // Unless it is forced, only where the convolutions would take these algorithms: the bits are theirs.
    fuses = fuses &&
            (forced == "fused" ? fits_by_name<T>(problem, names[i]) : name_by_rule<T>(context, problem) == names[i]);
    if (i + 1 < problems.size()) problems[i + 1].layout = Layout::channels_last;
  }
  if (!fuses) took_algorithm(context, residual_name, "composed");
  return fuses;
}

template <class T>
void inverted_residual(Context& context, T* y, const T* x, const T* expand, const T* expand_bias, const T* depthwise,
                       const T* depthwise_bias, const T* project, const T* project_bias, const T* added,
                       const InvertedResidual& shape) {
  took_algorithm(context, residual_name, "fused");
  Problem middle = problem_of(context, shape.depthwise, Pass::forward, sizeof(T));
  double work = nanoseconds(middle) + nanoseconds(problem_of(context, shape.project, Pass::forward, sizeof(T)));
  if (shape.expand.O > 0) work += nanoseconds(problem_of(context, shape.expand, Pass::forward, sizeof(T)));
  const int threads = middle.threads = useful_threads(context, work);
  if (!clips(middle.activation)) middle.activation = Activation::none;
  const Block3<T> arrays{.y = y,
                         .x = x,
                         .added = added,
                         .expand = {expand, expand_bias, shape.expand.activation},
                         .depthwise = {depthwise, depthwise_bias, shape.depthwise.activation},
                         .project = {project, project_bias, shape.project.activation}};
  Fused<T> plan(shape, middle, arrays);
  Problem alone = middle;  // the weights are few: not worth a team
  alone.threads = 1;
  const bool pads = middle.pad_h > 0 || middle.pad_w > 0;
  if (pads && !zeros_are_harmless(alone, depthwise)) return in_turn(context, arrays, shape);
  const Scratch between(context, static_cast<std::size_t>(plan.between()) * sizeof(T));
  plan.set_between(between.as<T>());
  const std::size_t bytes = static_cast<std::size_t>(plan.shared()) * sizeof(T);
  const kernels::WeightVersion* const version = kernels::weight_version;
  const Kept kept = version == nullptr ? Kept{} : kept_weights(*version, of_weights(shape), residual_name, bytes);
  const Scratch scratch(context, kept.data == nullptr ? bytes : 0);
  T* const weights = kept.data == nullptr ? scratch.as<T>() : static_cast<T*>(kept.data.get());
  run_on_weights(context, threads, plan, weights, kept.ready);
  if (kept.data != nullptr && !kept.ready) keep(*version, of_weights(shape), residual_name, kept);
}

template bool fuses_inverted_residual<float>(const Context&, const InvertedResidual&);
template bool fuses_inverted_residual<double>(const Context&, const InvertedResidual&);
template void inverted_residual(Context&, float*, const float*, const float*, const float*, const float*, const float*,
                                const float*, const float*, const float*, const InvertedResidual&);
template void inverted_residual(Context&, double*, const double*, const double*, const double*, const double*,
                                const double*, const double*, const double*, const double*, const InvertedResidual&);

}  // namespace tern::vectorized::convolution
