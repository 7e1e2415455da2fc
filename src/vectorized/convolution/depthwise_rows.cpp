#include "vectorized/convolution/depthwise_rows.hpp"

#include <utility>

#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {
namespace {

// Bytes of inputs of some channels that stay in the first-level cache while rows of outputs go over them.
constexpr std::int64_t near_bytes = 24 * 1024;

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

Pooled<TapAt> taps_of_row(const Axis& axis, std::int64_t row) {
  Pooled<TapAt> result;
  const std::int64_t phase = row % axis.phases(), place = row / axis.phases();
  for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
    if (!axis.has(phase, tap)) continue;
    const std::int64_t input = axis.input(phase, tap) + place * axis.step();
    if (input >= 0 && input < axis.inputs) result.push_back({tap, input});
  }
  return result;
}

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
                                std::int64_t weight_row, bool near)
    : rows_(rows_of(problem)),
      columns_(columns_of(problem)),
      segments_(segments_of(columns_)),
      activation_(problem.pass == Pass::forward ? problem.activation : kernels::Activation::none),
      in_pitch_(in_pitch),
      out_pitch_(out_pitch),
      weight_row_(weight_row) {
  constexpr std::int64_t most_rows = 8, vectors = 6;  // as many as the kernel sums together
  const std::int64_t lanes = depthwise_kernels<T>().lanes;
  const std::int64_t live = (rows_.taps - 1) * rows_.dilation + 1 + rows_.step();  // rows of inputs
  const std::int64_t bytes = live * std::max<std::int64_t>(columns_.inputs, 1) * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t fitting = near_bytes / bytes / lanes;
  block_ = lanes * (fitting >= vectors ? fitting / vectors * vectors : std::max<std::int64_t>(fitting, 1));
  if (!near) block_ = std::max<std::int64_t>(problem.groups, 1);
  together_ = problem.groups > block_ ? most_rows * rows_.phases() : 1;
}

template <class T>
void DepthwiseRows<T>::clear() {
  runs_.clear();
  taps_.clear();
}

template <class T>
void DepthwiseRows<T>::add_row(const Pooled<TapAt>& rows, std::int64_t to) {
  const bool adjacent = columns_.stride == 1 && columns_.dilation == 1 && !rows.empty();
  for (const Segment& segment : segments_) {
    const auto first = static_cast<std::int64_t>(taps_.size());
    for (const TapAt& h : rows)
      for (const TapAt& w : segment.taps)
        taps_.push_back(
            {(h.input * columns_.inputs + w.input) * in_pitch_, (h.tap * columns_.taps + w.tap) * weight_row_});
    const std::int64_t column = segment.phase + segment.first * columns_.phases();
    runs_.push_back({.first_tap = first,
                     .tap_count = static_cast<std::int64_t>(taps_.size()) - first,
                     .row_taps = adjacent ? static_cast<std::int64_t>(segment.taps.size()) : 0,
                     .out = (to * columns_.outputs + column) * out_pitch_,
                     .outputs = segment.count});
  }
}

template <class T>
void DepthwiseRows<T>::run(T* out, const T* in, const T* mask, const T* weights, const T* bias,
                           std::int64_t channels) const {
  DepthwiseRun<T> run;
  run.in_step = columns_.step() * in_pitch_;
  run.out_step = columns_.phases() * out_pitch_;
  run.activation = activation_;
  for (std::int64_t c = 0; c < channels; c += block_) {
    run.channels = std::min(block_, channels - c);
    run.in = in + c;
    run.mask = mask == nullptr ? nullptr : mask + c;
    run.weights = weights + c;
    run.bias = bias == nullptr ? nullptr : bias + c;
    for (const Run& each : runs_) {
      run.taps = taps_.data() + each.first_tap;
      run.tap_count = each.tap_count;
      run.row_taps = each.row_taps;
      run.out = out + c + each.out;
      run.outputs = each.outputs;
      depthwise_kernels<T>().run(run);
    }
  }
}

template class DepthwiseRows<float>;
template class DepthwiseRows<double>;

}  // namespace tern::vectorized::convolution
