#include <algorithm>
#include <limits>

#include "onnx/windows.hpp"

namespace tern::onnx {

Windows extended(Windows windows, const Tensor& x) {
  if (!windows.ceil) return windows;
  windows.ceil = false;
  for (std::size_t d = 0; d < windows.kernel.size(); ++d) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(d) + 2), stride = windows.stride[d];
    const std::int64_t reach = (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    const std::int64_t room = size + windows.before[d] + windows.after[d] - reach;
    std::int64_t outputs = (room > 0 ? (room + stride - 1) / stride : -(-room / stride)) + 1;  // rounded up
    if (outputs < 1) continue;                                          // which the operator refuses
    if ((outputs - 1) * stride >= size + windows.before[d]) --outputs;  // it starts in the padding
    windows.after[d] += std::max<std::int64_t>((outputs - 1) * stride - room, 0);
  }
  return windows;
}

namespace {

Windows pool_of(const Call& call, const Tensor& x) {
  if (x.rank() < 3 || x.rank() > 5)
    call.refuse(message("has an input ", x.shape()), "one to three spatial dimensions are supported");
  return windows_of(call, {x.shape().begin() + 2, x.shape().end()}, call.integers("kernel_shape"), true);
}

/// What the kernels do not take: padding of more than half of a window, or negative; rounded up, a window that does not
/// fit even once.
bool beyond_kernels(const Windows& windows, const Tensor& x) {
  for (std::size_t d = 0; d < windows.kernel.size(); ++d) {
    for (const std::int64_t pad : {windows.before[d], windows.after[d]})
      if (pad < 0 || 2 * pad > windows.kernel[d]) return true;
    const std::int64_t reach = (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    const std::int64_t whole = x.shape()[static_cast<int>(d) + 2] + windows.before[d] + windows.after[d];
    if (windows.ceil && reach > whole) return true;
  }
  return false;
}

/// x with the windows' padding as elements.
Tensor padded(const Tensor& x, const Windows& windows, double value) {
  std::vector<op::Padding> edges;
  for (std::size_t d = 0; d < windows.kernel.size(); ++d)
    edges.push_back({static_cast<std::int64_t>(d) + 2, windows.before[d], windows.after[d]});
  return op::pad(x, edges, value);
}

op::Pooled max_pooled(const Tensor& x, const Windows& windows, bool positions) {
  const bool uneven = windows.before != windows.after;
  if (x.rank() == 5) {
    op::MaxPool3dOptions options{.stride = triple_of(windows.stride),
                                 .padding = triple_of(windows.before),
                                 .dilation = triple_of(windows.dilation),
                                 .ceil_mode = windows.ceil};
    if (uneven) options.end_padding = triple_of(windows.after);
    const Triple kernel = triple_of(windows.kernel);
    if (positions) return op::max_pool3d_with_indices(x, kernel, options);
    return {op::max_pool3d(x, kernel, options), {}};
  }
  op::MaxPool2dOptions options{.stride = pair_of(windows.stride, 1),
                               .padding = pair_of(windows.before, 0),
                               .dilation = pair_of(windows.dilation, 1),
                               .ceil_mode = windows.ceil};
  if (uneven) options.end_padding = pair_of(windows.after, 0);
  const Pair kernel = pair_of(windows.kernel, 1);
  if (!positions) return {narrowed(op::max_pool2d(widened(x), kernel, options), x.rank()), {}};
  const op::Pooled pooled = op::max_pool2d_with_indices(widened(x), kernel, options);
  return {narrowed(pooled.values, x.rank()), narrowed(pooled.indices, x.rank())};
}

/// Positions in a plane of `given`, of positions in a plane of x, to which padding was added that is no longer the
/// windows' own.
Tensor positions_in(const Tensor& given, const Tensor& x, const Integers& requested, const Integers& left,
                    bool by_columns, const Tensor& positions) {
  const std::size_t dims = requested.size();
  std::vector<Tensor> along(dims);
  Tensor rest = positions;
  for (std::size_t d = dims; d-- > 0;) {
    const auto size = static_cast<double>(x.size(static_cast<std::int64_t>(d) + 2));
    const Tensor above = op::floor_divide(rest, size);
    along[d] = op::sub(op::sub(rest, op::mul(above, size)), static_cast<double>(requested[d] - left[d]));
    rest = above;
  }
  Tensor places;
  double step = 1;
  for (std::size_t i = 0; i < dims; ++i) {
    const std::size_t d = by_columns ? i : dims - 1 - i;
    const Tensor part = op::mul(along[d], step);
    places = places.defined() ? op::add(places, part) : part;
    step *= static_cast<double>(given.size(static_cast<std::int64_t>(d) + 2));
  }
  return places;
}

Results max_pool(const Call& call) {
  Tensor x = call.input(0);
  Windows windows = pool_of(call, x);
  const bool by_columns = call.integer("storage_order", 0) != 0;
  const DType dtype = x.dtype();
  if (!is_floating(dtype)) x = op::cast(x, DType::float32);  // eight bits
  const Tensor given = x;
  const Windows requested = windows;
  if (beyond_kernels(windows, x)) {
    windows = extended(windows, x);
    x = padded(x, windows, -std::numeric_limits<double>::infinity());
    windows.before.assign(windows.kernel.size(), 0);
    windows.after = windows.before;
  }
  const op::Pooled pooled = max_pooled(x, windows, call.wants(1));
  const Tensor values = dtype == x.dtype() ? pooled.values : op::cast(pooled.values, dtype);
  if (!call.wants(1)) return {values};
  // Positions in the whole tensor, in the order of rows or of columns.
  const Tensor places = x.shape() == given.shape() && !by_columns
                            ? pooled.indices
                            : positions_in(given, x, requested.before, windows.before, by_columns, pooled.indices);
  std::int64_t plane = 1;
  Shape shape{given.size(0), given.size(1)};
  for (int d = 2; d < given.rank(); ++d) {
    plane *= given.size(d);
    shape.push_back(1);
  }
  const Tensor first = op::mul(arange(0, given.size(0) * given.size(1)), static_cast<double>(plane));
  return {values, op::add(places, op::reshape(first, shape))};
}

/// Sums of windows as a convolution of each channel with ones.
Tensor window_sums(const Tensor& x, const Windows& windows) {
  const std::int64_t channels = x.size(1);
  if (x.rank() == 5) {
    const op::Conv3dOptions options{.stride = triple_of(windows.stride),
                                    .padding = triple_of(windows.before),
                                    .dilation = triple_of(windows.dilation),
                                    .end_padding = triple_of(windows.after),
                                    .groups = channels};
    const Triple kernel = triple_of(windows.kernel);
    return op::conv3d(x, ones({channels, 1, kernel.d, kernel.h, kernel.w}, x.dtype()), {}, options);
  }
  const Pair kernel = pair_of(windows.kernel, 1);
  const op::Conv2dOptions options{.stride = pair_of(windows.stride, 1),
                                  .padding = pair_of(windows.before, 0),
                                  .dilation = pair_of(windows.dilation, 1),
                                  .end_padding = pair_of(windows.after, 0),
                                  .groups = channels};
  return narrowed(op::conv2d(widened(x), ones({channels, 1, kernel.h, kernel.w}, x.dtype()), {}, options), x.rank());
}

/// The sum of each window divided by the number of its elements, both as sums of windows.
Tensor average_by_sums(const Tensor& x, const Windows& windows, bool with_padding) {
  const Windows whole = extended(windows, x);
  Shape one{1, 1};
  for (int d = 2; d < x.rank(); ++d) one.push_back(x.shape()[d]);
  Tensor counted = ones(one, x.dtype());
  Windows of_counts = whole;
  if (with_padding) {
    counted = padded(counted, windows, 1);
    for (std::size_t d = 0; d < windows.kernel.size(); ++d) {
      of_counts.before[d] = 0;
      of_counts.after[d] = whole.after[d] - windows.after[d];
    }
  }
  return op::div(window_sums(x, whole), window_sums(counted, of_counts));
}

Results average_pool(const Call& call) {
  const Tensor& x = call.input(0);
  const Windows windows = pool_of(call, x);
  const bool with_padding = call.integer("count_include_pad", 0) != 0;
  const bool dilated = std::ranges::any_of(windows.dilation, [](std::int64_t each) { return each != 1; });
  if (dilated || beyond_kernels(windows, x)) return {average_by_sums(x, windows, with_padding)};
  const bool uneven = windows.before != windows.after;
  if (x.rank() == 5) {
    op::AvgPool3dOptions options{.stride = triple_of(windows.stride),
                                 .padding = triple_of(windows.before),
                                 .ceil_mode = windows.ceil,
                                 .count_include_pad = with_padding};
    if (uneven) options.end_padding = triple_of(windows.after);
    return {op::avg_pool3d(x, triple_of(windows.kernel), options)};
  }
  op::AvgPool2dOptions options{.stride = pair_of(windows.stride, 1),
                               .padding = pair_of(windows.before, 0),
                               .ceil_mode = windows.ceil,
                               .count_include_pad = with_padding};
  if (uneven) options.end_padding = pair_of(windows.after, 0);
  return {narrowed(op::avg_pool2d(widened(x), pair_of(windows.kernel, 1), options), x.rank())};
}

Dims spatial(const Tensor& x) {
  Dims dims;
  for (int d = 2; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

Results lp_pool(const Call& call) {
  const Tensor& x = call.input(0);
  const Windows windows = pool_of(call, x);
  const auto order = static_cast<double>(call.integer("p", 2));
  return {op::pow(window_sums(op::pow(op::abs(x), order), extended(windows, x)), 1 / order)};
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
