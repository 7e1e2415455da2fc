// Convolution whose taps lie where offsets move them.

#include "onnx/windows.hpp"
#include "tern/operators/sampling.hpp"

namespace tern::onnx {

namespace {

/// Positions [K, outputs] of the taps along one dimension, without offsets.
Tensor taps_along(const Windows& windows, std::size_t d, std::int64_t outputs, DType dtype) {
  const Tensor starts = op::add(op::mul(op::cast(arange(0, outputs), dtype), static_cast<double>(windows.stride[d])),
                                static_cast<double>(-windows.before[d]));
  const Tensor taps = op::mul(op::cast(arange(0, windows.kernel[d]), dtype), static_cast<double>(windows.dilation[d]));
  return op::add(op::reshape(taps, {windows.kernel[d], 1}), op::reshape(starts, {1, outputs}));
}

/// Samples x at all taps, linearly and with zeros around it, and multiplies by the weights: (Dai and others, 2017) and,
/// with a mask, (Zhu and others, 2018).
Results deform_conv(const Call& call) {
  const Tensor &x = call.input(0), &weight = call.input(1), &offset = call.input(2);
  const std::int64_t groups = call.integer("group", 1), parts = call.integer("offset_group", 1);
  if (x.rank() != 4 || weight.rank() != 4 || offset.rank() != 4)
    call.refuse(message("has an input ", x.shape(), ", weights ", weight.shape(), " and offsets ", offset.shape()),
                "two spatial dimensions are supported");
  const Integers kernel = call.integers("kernel_shape", {weight.size(2), weight.size(3)});
  const Windows windows = windows_of(call, {x.size(2), x.size(3)}, kernel);
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3), o = weight.size(0),
                     k = kernel[0] * kernel[1], oh = offset.size(2), ow = offset.size(3);
  const auto outputs = [&](std::size_t d) {
    const std::int64_t room = x.size(static_cast<std::int64_t>(d) + 2) + windows.before[d] + windows.after[d] -
                              (windows.kernel[d] - 1) * windows.dilation[d] - 1;
    return room < 0 ? 0 : room / windows.stride[d] + 1;
  };
  const bool fits = groups > 0 && parts > 0 && c % groups == 0 && o % groups == 0 && c % parts == 0 &&
                    weight.shape() == Shape{o, c / groups, kernel[0], kernel[1]} && h > 0 && w > 0 &&
                    offset.shape() == Shape{n, parts * k * 2, outputs(0), outputs(1)} &&
                    (!call.has(4) || call.input(4).shape() == Shape{n, parts * k, oh, ow});
  if (!fits)
    call.refuse(
        message("has ", groups, " groups, ", parts, " groups of offsets and outputs of ", outputs(0), 'x', outputs(1),
                " for an input ", x.shape(), ", weights ", weight.shape(), " and offsets ", offset.shape()),
        "repair the file");
  call.check_size({n, c, k, oh, ow});

  // From -1 to 1 between the outer edges of the first and the last element, x first.
  const Tensor moves = op::reshape(offset, {n * parts, kernel[0], kernel[1], 2, oh, ow});
  const auto places = [&](std::size_t d, std::int64_t size) {
    Shape shape{1, 1, 1, 1, 1};
    shape[static_cast<int>(d) + 1] = kernel[d];
    shape[static_cast<int>(d) + 3] = d == 0 ? oh : ow;
    const Tensor taps = op::reshape(taps_along(windows, d, d == 0 ? oh : ow, x.dtype()), shape);
    const Tensor own =
        op::squeeze(op::slice(moves, 3, static_cast<std::int64_t>(d), static_cast<std::int64_t>(d) + 1), {3});
    return op::sub(op::div(op::add(op::mul(op::add(own, taps), 2.0), 1.0), static_cast<double>(size)), 1.0);
  };
  const Tensor grid = op::reshape(op::stack({places(1, w), places(0, h)}, -1), {n * parts, k * oh, ow, 2});
  Tensor columns = op::grid_sample(op::reshape(x, {n * parts, c / parts, h, w}), grid);
  columns = op::reshape(columns, {n, parts, c / parts, k, oh * ow});
  if (call.has(4)) columns = op::mul(columns, op::reshape(call.input(4), {n, parts, 1, k, oh * ow}));
  columns = op::reshape(columns, {n, groups, c / groups * k, oh * ow});
  Tensor y =
      op::reshape(op::matmul(op::reshape(weight, {1, groups, o / groups, c / groups * k}), columns), {n, o, oh, ow});
  if (call.has(3)) y = op::add(y, op::reshape(call.input(3), {1, o, 1, 1}));
  return {y};
}

}  // namespace

void append_deform_conv(Table& table) { table["DeformConv"] = deform_conv; }

}  // namespace tern::onnx
