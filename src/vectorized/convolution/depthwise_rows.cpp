#include "vectorized/convolution/depthwise_rows.hpp"

#include <numeric>
#include <utility>

#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {
namespace {

// Bytes of inputs of some channels that stay in the first-level cache while rows of outputs go over them.
constexpr std::int64_t near_bytes = 24 * 1024;
// The most vectors of channels of folded positions, and elements of these.
constexpr std::int64_t most_folded = 6, most_folded_elements = 128;

std::int64_t divide_floor(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -divide_up(-a, b); }

}  // namespace

Axis rows_of(const Problem& p) {
  const bool forward = p.pass != Pass::grad_x;
  return {forward ? p.OH : p.H, forward ? p.H : p.OH, p.KH, p.stride_h, p.pad_h, p.dilation_h, forward};
}
Axis columns_of(const Problem& p) {
  const bool forward = p.pass != Pass::grad_x;
  return {forward ? p.OW : p.W, forward ? p.W : p.OW, p.KW, p.stride_w, p.pad_w, p.dilation_w, forward};
}

Pooled<Segment> segments_of(const Axis& axis) {
  Pooled<Segment> result;
  for (std::int64_t phase = 0; phase < std::min(axis.phases(), axis.outputs); ++phase) {
    struct Reach {
      std::int64_t tap, begin, end;
    };
    const std::int64_t count = axis.count(phase), step = axis.step();
    Pooled<Reach> reaches;
    Pooled<std::int64_t> edges{0, count};
    for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
      if (!axis.has(phase, tap)) continue;
      const std::int64_t input = axis.input(phase, tap);
      const std::int64_t begin = std::clamp<std::int64_t>(-divide_floor(input, step), 0, count);
      const std::int64_t end = std::clamp<std::int64_t>(divide_floor(axis.inputs - 1 - input, step) + 1, begin, count);
      reaches.push_back({tap, begin, end});
      edges.insert(edges.end(), {begin, end});
    }
    std::ranges::sort(edges);
    for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
      if (edges[i] == edges[i + 1]) continue;
      Segment segment{phase, edges[i], edges[i + 1] - edges[i], {}};
      for (const auto& [tap, begin, end] : reaches)
        if (begin <= segment.first && end >= edges[i + 1])
          segment.taps.push_back({tap, axis.input(phase, tap) + segment.first * step});
      result.push_back(std::move(segment));
    }
  }
  return result;
}

void taps_of_row(const Axis& axis, std::int64_t row, Pooled<TapAt>& taps) {
  taps.clear();
  const std::int64_t phase = row % axis.phases(), place = row / axis.phases();
  for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
    if (!axis.has(phase, tap)) continue;
    const std::int64_t input = axis.input(phase, tap) + place * axis.step();
    if (input >= 0 && input < axis.inputs) taps.push_back({tap, input});
  }
}
Pooled<TapAt> taps_of_row(const Axis& axis, std::int64_t row) {
  Pooled<TapAt> result;
  taps_of_row(axis, row, result);
  return result;
}

template <class T>
std::int64_t folded_positions(std::int64_t channels) {
  const std::int64_t lanes = depthwise_kernels<T>().lanes, fold = lanes / std::gcd(lanes, channels);
  const bool wasteful = 4 * round_up(channels, lanes) >= 5 * channels;
  return wasteful && fold * channels <= std::min(most_folded * lanes, most_folded_elements) ? fold : 1;
}
template std::int64_t folded_positions<float>(std::int64_t);
template std::int64_t folded_positions<double>(std::int64_t);

template <class T>
void pack_depthwise(const Team& team, T* packed, const T* weights, const Problem& problem) {
  const std::int64_t taps = problem.taps(), C = problem.groups, padded = padded_channels<T>(problem);
  const std::int64_t begin = team.begin(C, 16), end = team.end(C, 16);
  if (begin >= end) return;
  gemm_kernels<T>().transpose(packed + begin, padded, weights + begin * taps, taps, end - begin, taps);
  if (end < C) return;
  for (std::int64_t tap = 0; tap < taps; ++tap) std::fill(packed + tap * padded + C, packed + (tap + 1) * padded, T{0});
}
template void pack_depthwise(const Team&, float*, const float*, const Problem&);
template void pack_depthwise(const Team&, double*, const double*, const Problem&);

template <class T>
DepthwiseRows<T>::DepthwiseRows(const Problem& problem, std::int64_t in_pitch, std::int64_t out_pitch,
                                std::int64_t weight_row, bool near, std::int64_t fold)
    : rows_(rows_of(problem)),
      columns_(columns_of(problem)),
      activation_(problem.pass == Pass::forward ? problem.activation : kernels::Activation::none),
      in_pitch_(in_pitch),
      out_pitch_(out_pitch),
      weight_row_(weight_row),
      fold_(fold) {
  constexpr std::int64_t most_rows = 8, vectors = 6;  // as many as the kernel sums together
  const std::int64_t lanes = depthwise_kernels<T>().lanes;
  // With a stride, images from far away are read faster by whole rows of all channels, unless each is read often.
  const std::int64_t stride = columns_.line_stride(),
                     bytes = problem.plane() * in_pitch * static_cast<std::int64_t>(sizeof(T));
  const bool often = stride == 1 || columns_.taps >= 7 || near || bytes <= cache_share(0.75);
  lines_ = fold == 1 && depthwise_line_fits(columns_.taps, stride) &&
           (columns_.forward ? often : columns_.stride == 1 && !problem.mask);
  far_ = columns_.forward && columns_.taps == 3 && !near && problem.N * bytes > cache_share(lines_ ? 12 : 48);
  if (!lines_) segments_ = segments_of(columns_);
  const std::int64_t live = (rows_.taps - 1) * rows_.dilation + 1 + rows_.step();  // rows of inputs
  const std::int64_t tile =
      ((depthwise_line_kernels<T>().most_outputs - 1) * columns_.line_stride() + columns_.taps) * columns_.dilation;
  const std::int64_t width = std::max<std::int64_t>(lines_ ? std::min(tile, columns_.inputs) : columns_.inputs, 1);
  const std::int64_t fitting = near_bytes / (live * width * static_cast<std::int64_t>(sizeof(T))) / lanes;
  block_ = lanes * (fitting >= vectors ? fitting / vectors * vectors : std::max<std::int64_t>(fitting, 1));
  if ((!near && !lines_) || fold > 1) block_ = std::max<std::int64_t>(problem.groups, 1);
  together_ = lines_ || problem.groups > block_ ? most_rows * rows_.phases() : 1;
}

template <class T>
void DepthwiseRows<T>::clear() {
  placed_ = {0, 0};
  runs_.clear();
  taps_.clear();
}

template <class T>
void DepthwiseRows<T>::add_row(const Pooled<TapAt>& rows, std::int64_t to) {
  const std::int64_t in_row = columns_.inputs * in_pitch_, out_row = to * columns_.outputs * out_pitch_;
  if (lines_) {
    runs_.push_back(
        {static_cast<std::int64_t>(taps_.size()), static_cast<std::int64_t>(rows.size()), out_row, columns_.outputs});
    for (const TapAt& h : rows) taps_.push_back({h.input * in_row, h.tap * columns_.taps * weight_row_});
    return;
  }
  for (const Segment& segment : segments_) {
    const std::int64_t out = out_row + (segment.phase + segment.first * columns_.phases()) * out_pitch_;
    const std::int64_t folded = segment.count / fold_;
    if (folded == 0 || fold_ == 1) {
      add_run(rows, segment, 0, out, Run{.outputs = segment.count});
      continue;
    }
    add_run(rows, segment, 0, out, Run{.outputs = folded, .fold = fold_});
    if (segment.count % fold_ != 0)  // the last ones, some of them again
      add_run(rows, segment, segment.count - fold_, out, Run{.outputs = 1, .fold = fold_});
  }
}

/// A run of a segment, whose outputs begin at `out`, behind its first `skipped` ones.
template <class T>
void DepthwiseRows<T>::add_run(const Pooled<TapAt>& rows, const Segment& segment, std::int64_t skipped,
                               std::int64_t out, Run run) {
  const std::int64_t in_row = columns_.inputs * in_pitch_;
  run.first_tap = static_cast<std::int64_t>(taps_.size());
  for (const TapAt& h : rows)
    for (const TapAt& w : segment.taps)
      taps_.push_back({h.input * in_row + (w.input + skipped * columns_.step()) * in_pitch_,
                       (h.tap * columns_.taps + w.tap) * weight_row_});
  run.tap_count = static_cast<std::int64_t>(taps_.size()) - run.first_tap;
  const auto kept = static_cast<std::int64_t>(rows.size()) - rows_.step();  // rows that the next one reads, too
  run.first_ahead = std::max<std::int64_t>(kept, 0) * static_cast<std::int64_t>(segment.taps.size());
  run.out = out + skipped * columns_.phases() * out_pitch_;
  runs_.push_back(run);
}

template <class T>
void DepthwiseRows<T>::run(T* out, const T* in, const T* mask, const T* weights, const T* bias,
                           std::int64_t channels) const {
  DepthwiseRun<T> run;
  run.activation = activation_;
  if (far_) run.ahead = rows_.step() * columns_.inputs * in_pitch_;
  T folded_bias[most_folded_elements];
  if (fold_ > 1 && bias != nullptr)
    for (std::int64_t i = 0; i < fold_; ++i) std::copy_n(bias, channels, folded_bias + i * channels);
  for (std::int64_t c = 0; c < channels; c += block_) {
    run.channels = std::min(block_, channels - c);
    run.in = in + c;
    run.mask = mask == nullptr ? nullptr : mask + c;
    run.weights = weights + c;
    run.bias = bias == nullptr ? nullptr : bias + c;
    run.out = out + c;
    if (lines_) {
      run_lines(run);
      continue;
    }
    for (const Run& each : runs_) {
      run.taps = taps_.data() + each.first_tap;
      run.tap_count = each.tap_count;
      run.first_ahead = each.first_ahead;
      run.out = out + c + each.out;
      run.outputs = each.outputs;
      run.in_step = each.fold * columns_.step() * in_pitch_;
      run.out_step = each.fold * columns_.phases() * out_pitch_;
      if (fold_ > 1) {
        run.channels = each.fold * channels;
        run.bias = bias == nullptr ? nullptr : folded_bias;
      }
      depthwise_kernels<T>().run(run);
    }
  }
}

/// With dilation d and stride s, the outputs [phase, phase + d / gcd(d, s), ...) are a row without dilation.
template <class T>
void DepthwiseRows<T>::run_lines(const DepthwiseRun<T>& channels) const {
  DepthwiseLine<T> line;
  line.out = channels.out;
  line.in = channels.in;
  line.weights = channels.weights;
  line.bias = channels.bias;
  line.taps = columns_.taps;
  line.channels = channels.channels;
  line.weight_step = weight_row_;
  line.stride = columns_.line_stride();
  line.activation = activation_;
  line.ahead = channels.ahead;
  for (std::int64_t phase = 0; phase < std::min(columns_.line_phases(), columns_.outputs); ++phase)
    run_tiles(line, phase);
}

/// The same tile of columns in all rows, so that they share inputs. The gradient of x, whose inputs lie in the opposite
/// order, goes from the last column to the first.
template <class T>
void DepthwiseRows<T>::run_tiles(DepthwiseLine<T> line, std::int64_t phase) const {
  const auto& kernels = depthwise_line_kernels<T>();
  const auto& [outputs, inputs, taps, stride, pad, step, forward] = columns_;
  const std::int64_t out_step = columns_.line_phases();
  const std::int64_t count = divide_up(outputs - phase, out_step), tiles = divide_up(count, kernels.most_outputs);
  const std::int64_t before = forward ? pad : pad + outputs - inputs;
  line.in_step = (forward ? step : -step) * in_pitch_;
  line.out_step = (forward ? out_step : -out_step) * out_pitch_;
  T* const out = line.out;
  const T* const in = line.in;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t begin = count * tile / tiles;
    line.outputs = count * (tile + 1) / tiles - begin;
    const std::int64_t output = phase + begin * out_step, input = output * (forward ? stride : 1) - before;
    line.inside = columns_.line_inside(input, line.outputs);
    line.in = in + (forward ? input : inputs - 1 - input) * in_pitch_;
    for (const Run& row : runs_) {
      line.rows = taps_.data() + row.first_tap;
      line.row_count = row.tap_count;
      line.out = out + row.out + (forward ? output : outputs - 1 - output) * out_pitch_;
      kernels.run(line);
    }
  }
}

template class DepthwiseRows<float>;
template class DepthwiseRows<double>;

}  // namespace tern::vectorized::convolution
