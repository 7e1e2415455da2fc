#include <algorithm>

#include "onnx/windows.hpp"

namespace tern::onnx {

Windows windows_of(const Call& call, const Integers& sizes, const Integers& kernel, bool cuts) {
  const std::size_t rank = sizes.size();
  Windows windows{.kernel = kernel};
  windows.stride = call.integers("strides", Integers(rank, 1));
  windows.dilation = call.integers("dilations", Integers(rank, 1));
  windows.ceil = call.integer("ceil_mode", 0) != 0;
  Integers pads = call.integers("pads", Integers(2 * rank, 0));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (kernel.size() != rank || windows.stride.size() != rank || windows.dilation.size() != rank ||
      pads.size() != 2 * rank)
    call.refuse(message("has attributes that do not fit ", rank, " spatial dimensions"), "repair the file");
  constexpr std::int64_t far = std::int64_t{1} << 31;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool fit = kernel[d] > 0 && kernel[d] < far && windows.stride[d] > 0 && windows.stride[d] < far &&
                     windows.dilation[d] > 0 && windows.dilation[d] < far && std::abs(pads[d]) < far &&
                     std::abs(pads[rank + d]) < far;
    if (!fit) call.refuse("has sizes, strides or dilations that are out of range", "repair the file");
  }
  windows.before.assign(pads.begin(), pads.begin() + rank);
  windows.after.assign(pads.begin() + rank, pads.end());
  if (automatic == "VALID") {
    windows.before.assign(rank, 0);
    windows.after.assign(rank, 0);
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t outputs = (sizes[d] + windows.stride[d] - 1) / windows.stride[d];
      const std::int64_t reach = (kernel[d] - 1) * windows.dilation[d] + 1;
      const std::int64_t least = (outputs - 1) * windows.stride[d] + reach - sizes[d];
      const std::int64_t total = cuts ? least : std::max<std::int64_t>(least, 0);
      windows.before[d] = automatic == "SAME_UPPER" ? total / 2 : (total + 1) / 2;
      windows.after[d] = total - windows.before[d];
    }
  } else if (automatic != "NOTSET") {
    call.refuse(message("has auto_pad '", automatic, "'"), "NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  return windows;
}

Tensor widened(const Tensor& x) { return x.rank() == 3 ? op::reshape(x, {x.size(0), x.size(1), 1, x.size(2)}) : x; }
Tensor narrowed(const Tensor& x, int rank) { return rank == 3 ? op::reshape(x, {x.size(0), x.size(1), x.size(3)}) : x; }

namespace {

Integers kernel_of(const Call& call, const Tensor& weight) {
  const Integers sizes(weight.shape().begin() + 2, weight.shape().end());
  const Integers given = call.integers("kernel_shape", sizes);
  if (given != sizes) call.refuse(message("has a kernel_shape that differs from weights of ", weight.shape()));
  return sizes;
}

void check_rank(const Call& call, const Tensor& x, const Tensor& weight) {
  if (x.rank() != weight.rank() || x.rank() < 3)
    call.refuse(message("has an input ", x.shape(), " and weights ", weight.shape()), "repair the file");
  if (x.rank() > 5) call.refuse(message("has ", x.rank() - 2, " spatial dimensions"), "at most three are supported");
}

Results conv(const Call& call) {
  const Tensor &x = call.input(0), &weight = call.input(1), bias = call.optional(2);
  check_rank(call, x, weight);
  const Windows windows = windows_of(call, {x.shape().begin() + 2, x.shape().end()}, kernel_of(call, weight));
  if (x.rank() == 5) {
    const op::Conv3dOptions options{.stride = triple_of(windows.stride),
                                    .padding = triple_of(windows.before),
                                    .dilation = triple_of(windows.dilation),
                                    .end_padding = triple_of(windows.after),
                                    .groups = call.integer("group", 1)};
    return {op::conv3d(x, weight, bias, options)};
  }
  op::Conv2dOptions options{.stride = pair_of(windows.stride, 1),
                            .padding = pair_of(windows.before, 0),
                            .dilation = pair_of(windows.dilation, 1),
                            .groups = call.integer("group", 1)};
  if (windows.before != windows.after) options.end_padding = pair_of(windows.after, 0);
  return {narrowed(op::conv2d(widened(x), widened(weight), bias, options), x.rank())};
}

Results conv_transpose(const Call& call) {
  const Tensor &x = call.input(0), &weight = call.input(1), bias = call.optional(2);
  check_rank(call, x, weight);
  const std::size_t rank = static_cast<std::size_t>(x.rank()) - 2;
  const Integers kernel = kernel_of(call, weight);
  const Integers stride = call.integers("strides", Integers(rank, 1));
  const Integers dilation = call.integers("dilations", Integers(rank, 1));
  const Integers pads = call.integers("pads", Integers(2 * rank, 0));
  const Integers extra = call.integers("output_padding", Integers(rank, 0));
  const Integers shape = call.integers("output_shape");
  const std::string automatic = call.text("auto_pad", "NOTSET");
  const std::int64_t groups = call.integer("group", 1);
  if (stride.size() != rank || dilation.size() != rank || pads.size() != 2 * rank || extra.size() != rank ||
      (!shape.empty() && shape.size() != rank))
    call.refuse(message("has attributes that do not fit ", rank, " spatial dimensions"), "repair the file");
  constexpr std::int64_t far = std::int64_t{1} << 31;
  // All elements that the input reaches, then what is cut off or added at both ends.
  std::vector<op::Padding> edges;
  Integers before(rank), after(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto out = [&](std::int64_t number) { return number < -far || number > far; };
    if (stride[d] < 1 || dilation[d] < 1 || stride[d] > far || dilation[d] > far || out(extra[d]) || out(pads[d]) ||
        out(pads[rank + d]) || (!shape.empty() && out(shape[d])))
      call.refuse("has strides, dilations or paddings that are out of range", "repair the file");
    const std::int64_t whole = (x.shape()[static_cast<int>(d) + 2] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1;
    before[d] = -pads[d];
    after[d] = extra[d] - pads[rank + d];
    std::int64_t wanted = -1;
    if (!shape.empty())
      wanted = shape[d];
    else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
      wanted = x.shape()[static_cast<int>(d) + 2] * stride[d];
    if (wanted >= 0) {
      // The rest goes to the begin for SAME_LOWER, else to the end.
      const std::int64_t total = whole + extra[d] - wanted;
      const std::int64_t smaller = total >> 1;  // rounded down, negative totals too
      const std::int64_t first = automatic == "SAME_UPPER" ? smaller : total - smaller;
      before[d] = -first;
      after[d] = extra[d] - (total - first);
    } else if (automatic == "VALID") {
      before[d] = 0;
      after[d] = extra[d];
    }
    if (before[d] != 0 || after[d] != 0) edges.push_back({static_cast<std::int64_t>(d) + 2, before[d], after[d]});
  }
  bool plain = true;
  Integers padding(rank), output_padding(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    padding[d] = -before[d];
    output_padding[d] = after[d] - before[d];
    plain = plain && padding[d] >= 0 && output_padding[d] >= 0 && output_padding[d] < stride[d];
  }
  const Integers none(rank, 0);
  const auto transposed = [&](const Integers& cut, const Integers& added, const Tensor& with) {
    if (rank == 3) {
      const op::ConvTranspose3dOptions options{.stride = triple_of(stride),
                                               .padding = triple_of(cut),
                                               .output_padding = triple_of(added),
                                               .dilation = triple_of(dilation),
                                               .groups = groups};
      return op::conv_transpose3d(x, weight, with, options);
    }
    const op::ConvTranspose2dOptions options{.stride = pair_of(stride, 1),
                                             .padding = pair_of(cut, 0),
                                             .output_padding = pair_of(added, 0),
                                             .dilation = pair_of(dilation, 1),
                                             .groups = groups};
    return narrowed(op::conv_transpose2d(widened(x), widened(weight), with, options), x.rank());
  };
  if (plain) return {transposed(padding, output_padding, bias)};
  const Tensor result = op::pad(transposed(none, none, {}), edges);
  if (!bias.defined()) return {result};
  Shape channels = Shape::filled(x.rank(), 1);
  channels[1] = -1;
  return {op::add(result, op::reshape(bias, channels))};
}

}  // namespace

void append_convolutions(Table& table) {
  table["Conv"] = conv;
  table["ConvTranspose"] = conv_transpose;
}

}  // namespace tern::onnx
