#include <algorithm>

#include "onnx/windows.hpp"

namespace tern::onnx {

namespace {

Windows pool_of(const Call& call, const Tensor& x) {
  if (x.rank() < 3 || x.rank() > 4)
    call.refuse(message("has an input ", x.shape()), "one and two spatial dimensions are supported");
  return windows_of(call, {x.shape().begin() + 2, x.shape().end()}, call.integers("kernel_shape"));
}

/// Padding that the kernels do not take: more than half of a window, or negative.
bool beyond_kernels(const Windows& windows) {
  for (std::size_t d = 0; d < windows.kernel.size(); ++d)
    for (const std::int64_t pad : {windows.before[d], windows.after[d]})
      if (pad < 0 || 2 * pad > windows.kernel[d]) return true;
  return false;
}

/// x with its padding as elements; the windows then have none.
Tensor padded(const Tensor& x, Windows& windows, double value) {
  std::vector<op::Padding> edges;
  for (std::size_t d = 0; d < windows.kernel.size(); ++d)
    edges.push_back({static_cast<std::int64_t>(d) + 2, windows.before[d], windows.after[d]});
  windows.before.assign(windows.kernel.size(), 0);
  windows.after = windows.before;
  return op::pad(x, edges, is_floating(x.dtype()) ? Number(value) : Number(0));
}

Results max_pool(const Call& call) {
  Tensor x = call.input(0);
  Windows windows = pool_of(call, x);
  const bool by_columns = call.integer("storage_order", 0) != 0;
  const int rank = x.rank();
  const DType dtype = x.dtype();
  if (!is_floating(dtype)) x = op::cast(x, DType::float32);  // eight bits
  if (beyond_kernels(windows)) {
    if (call.wants(1)) call.refuse("has wide padding and wants positions", "leave the positions out");
    x = padded(x, windows, -std::numeric_limits<double>::infinity());
  }
  op::MaxPool2dOptions options{.stride = pair_of(windows.stride, 1),
                               .padding = pair_of(windows.before, 0),
                               .dilation = pair_of(windows.dilation, 1),
                               .ceil_mode = windows.ceil};
  if (windows.before != windows.after) options.end_padding = pair_of(windows.after, 0);
  const Pair kernel = pair_of(windows.kernel, 1);
  const auto back = [&](const Tensor& y) { return dtype == y.dtype() ? y : op::cast(y, dtype); };
  if (!call.wants(1)) return {back(narrowed(op::max_pool2d(widened(x), kernel, options), rank))};
  const op::Pooled pooled = op::max_pool2d_with_indices(widened(x), kernel, options);
  // Positions in the whole tensor, in the order of rows or of columns.
  const std::int64_t h = rank == 4 ? x.size(2) : 1, w = x.size(-1), planes = x.size(0) * x.size(1);
  Tensor places = pooled.indices;
  if (by_columns && rank == 4) {
    const Tensor rows = op::floor_divide(places, static_cast<double>(w));
    const Tensor columns = op::sub(places, op::mul(rows, static_cast<double>(w)));
    places = op::add(op::mul(columns, static_cast<double>(h)), rows);
  }
  const Tensor first =
      op::reshape(op::mul(arange(0, planes), static_cast<double>(h * w)), {x.size(0), x.size(1), 1, 1});
  return {back(narrowed(pooled.values, rank)), narrowed(op::add(places, first), rank)};
}

/// Sums of windows as a convolution of each channel with ones.
Tensor window_sums(const Tensor& x, const Windows& windows) {
  const std::int64_t channels = x.size(1);
  const Pair kernel = pair_of(windows.kernel, 1);
  op::Conv2dOptions options{.stride = pair_of(windows.stride, 1),
                            .padding = pair_of(windows.before, 0),
                            .dilation = pair_of(windows.dilation, 1),
                            .end_padding = pair_of(windows.after, 0),
                            .groups = channels};
  return op::conv2d(x, ones({channels, 1, kernel.h, kernel.w}, x.dtype()), {}, options);
}

/// What the last window needs beyond the padding when outputs are rounded up.
void extend(Windows& windows, const Integers& sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t reach = (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    const std::int64_t room = sizes[d] + windows.before[d] + windows.after[d] - reach;
    std::int64_t outputs = (room + windows.stride[d] - 1) / windows.stride[d] + 1;
    if ((outputs - 1) * windows.stride[d] >= sizes[d] + windows.before[d]) --outputs;  // starts in the padding
    windows.after[d] += std::max<std::int64_t>((outputs - 1) * windows.stride[d] - room, 0);
  }
}

Results average_pool(const Call& call) {
  const Tensor& x = call.input(0);
  Windows windows = pool_of(call, x);
  const bool with_padding = call.integer("count_include_pad", 0) != 0;
  const bool dilated = std::ranges::any_of(windows.dilation, [](std::int64_t each) { return each != 1; });
  if (!dilated && !beyond_kernels(windows)) {
    op::AvgPool2dOptions options{.stride = pair_of(windows.stride, 1),
                                 .padding = pair_of(windows.before, 0),
                                 .ceil_mode = windows.ceil,
                                 .count_include_pad = with_padding};
    if (windows.before != windows.after) options.end_padding = pair_of(windows.after, 0);
    return {narrowed(op::avg_pool2d(widened(x), pair_of(windows.kernel, 1), options), x.rank())};
  }
  // The sum of a window divided by the number of its elements, both as sums of windows.
  Integers sizes(x.shape().begin() + 2, x.shape().end());
  Shape one{1, 1};
  for (const std::int64_t size : sizes) one.push_back(size);
  Tensor counted = ones(one, x.dtype());
  Windows of_counts = windows;
  if (with_padding) {
    std::vector<op::Padding> edges;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      edges.push_back({static_cast<std::int64_t>(d) + 2, windows.before[d], windows.after[d]});
    counted = op::pad(counted, edges, 1);
  }
  if (windows.ceil) {
    const Integers own = windows.after;
    extend(windows, sizes);
    for (std::size_t d = 0; d < sizes.size(); ++d) of_counts.after[d] += windows.after[d] - own[d];
  }
  if (with_padding) {
    of_counts.before.assign(sizes.size(), 0);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      of_counts.after[d] = windows.after[d] + windows.before[d] + sizes[d] - counted.shape()[static_cast<int>(d) + 2];
  }
  return {narrowed(op::div(window_sums(widened(x), windows), window_sums(widened(counted), of_counts)), x.rank())};
}

Dims spatial(const Tensor& x) {
  Dims dims;
  for (int d = 2; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

Results lp_pool(const Call& call) {
  const Tensor& x = call.input(0);
  Windows windows = pool_of(call, x);
  const auto order = static_cast<double>(call.integer("p", 2));
  if (windows.ceil) extend(windows, {x.shape().begin() + 2, x.shape().end()});
  const Tensor powers = op::pow(op::abs(widened(x)), order);
  return {narrowed(op::pow(window_sums(powers, windows), 1 / order), x.rank())};
}

}  // namespace

void append_pooling(Table& table) {
  table["MaxPool"] = max_pool;
  table["AveragePool"] = average_pool;
  table["LpPool"] = lp_pool;
  table["GlobalAveragePool"] = [](const Call& call) {
    const Tensor& x = call.input(0);
    return Results{x.rank() == 4 ? op::global_avg_pool2d(x) : op::mean(x, spatial(x), true)};
  };
  table["GlobalMaxPool"] = [](const Call& call) {
    return Results{op::max(call.input(0), spatial(call.input(0)), true)};
  };
  table["GlobalLpPool"] = [](const Call& call) {
    const auto order = static_cast<double>(call.integer("p", 2));
    return Results{op::norm(call.input(0), order, spatial(call.input(0)), true)};
  };
}

}  // namespace tern::onnx
