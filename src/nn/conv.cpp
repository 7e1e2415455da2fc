#include "tern/nn/conv.hpp"

#include <algorithm>
#include <cmath>

#include "nn/call_log.hpp"
#include "nn/layer.hpp"
#include "tern/operators/shape.hpp"

namespace tern::nn {
namespace {

void check_groups(const char* layer, std::int64_t in, std::int64_t out, std::int64_t groups) {
  expects<ShapeError>(groups > 0 && in % groups == 0 && out % groups == 0, layer, ": ", in, " input and ", out,
                      " output channels do not divide into ", groups, " groups");
}

Shape weight_shape(std::int64_t in, std::int64_t out, Pair kernel, std::int64_t groups) {
  check_groups("Conv2d", in, out, groups);
  return {out, in / groups, kernel.h, kernel.w};
}

Shape row_weight_shape(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t groups) {
  check_groups("Conv1d", in, out, groups);
  return {out, in / groups, kernel};
}

Shape transposed_weight_shape(std::int64_t in, std::int64_t out, Pair kernel, std::int64_t groups) {
  check_groups("ConvTranspose2d", in, out, groups);
  return {in, out / groups, kernel.h, kernel.w};
}

Tensor transposed_bias(std::int64_t out, const Tensor& weight, Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  return init::uniform_(Tensor({out}, weight.dtype()), generator, -bound, bound);
}

}  // namespace

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Pair kernel, const Conv2dOptions& options, Generator& generator)
    : options_{.stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .end_padding = options.end_padding,
               .groups = options.groups,
               .activation = options.activation,
               .same_padding = options.same_padding},
      weight_(parameter("weight", start_weight("Conv2d", weight_shape(in, out, kernel, options.groups), options.dtype,
                                               options.start, generator))),
      bias_(parameter("bias", options.bias ? start_bias(weight_, options.start, generator) : Tensor())) {}

AsOperator Conv2d::as_operator(bool) const {
  return {{&operators::op("conv2d"), operators::Attributes({options_})}, {weight_, bias_}};
}

std::string Conv2d::describe() const {
  const auto pair = [](const char* name, Pair value, std::int64_t usual) {
    return value.h == usual && value.w == usual ? std::string() : message(", ", name, ' ', value.h, 'x', value.w);
  };
  return message("Conv2d(", weight_->size(1) * options_.groups, ", ", weight_->size(0), ", ", weight_->size(2), 'x',
                 weight_->size(3), pair("stride", options_.stride, 1),
                 describe_padding(options_.padding, options_.end_padding),
                 options_.same_padding ? ", same padding" : "", pair("dilation", options_.dilation, 1),
                 options_.groups == 1 ? std::string() : message(", groups ", options_.groups),
                 bias_->defined() ? "" : ", no bias", suffix(options_.activation), ")");
}

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, const Conv1dOptions& options,
               Generator& generator)
    : options_{.stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .groups = options.groups,
               .same_padding = options.same_padding},
      weight_(parameter("weight", start_weight("Conv1d", row_weight_shape(in, out, kernel, options.groups),
                                               options.dtype, options.start, generator))),
      bias_(parameter("bias", options.bias ? start_bias(weight_, options.start, generator) : Tensor())) {}

AsOperator Conv1d::as_operator(bool) const {
  return {{&operators::op("conv1d"), operators::Attributes({options_})}, {weight_, bias_}};
}

std::string Conv1d::describe() const {
  return message("Conv1d(", weight_->size(1) * options_.groups, ", ", weight_->size(0), ", ", weight_->size(2), ")");
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, Pair kernel, const ConvTranspose2dOptions& options,
                                 Generator& generator)
    : options_{options.stride, options.padding, options.output_padding, options.dilation, options.groups},
      weight_(
          parameter("weight", start_weight("ConvTranspose2d", transposed_weight_shape(in, out, kernel, options.groups),
                                           options.dtype, Start::torch, generator))),
      bias_(parameter("bias", options.bias ? transposed_bias(out, weight_, generator) : Tensor())) {}

Tensor ConvTranspose2d::forward(const Tensor& x) const {
  return operators::conv_transpose2d(x, weight_, bias_, options_);
}

std::string ConvTranspose2d::describe() const {
  return message("ConvTranspose2d(", weight_->size(0), ", ", weight_->size(1) * options_.groups, ", ", weight_->size(2),
                 'x', weight_->size(3), ")");
}

Tensor cat(const std::vector<Conv2dInput>& inputs) {
  if (one_by_one() || !std::ranges::all_of(inputs, &Conv2dInput::plain)) {
    std::vector<Tensor> parts;
    for (const Conv2dInput& input : inputs) parts.push_back(input.conv(input.x));
    return operators::cat(parts, 1);
  }
  std::vector<operators::Conv2dCall> calls;
  for (const Conv2dInput& input : inputs) calls.push_back(input.conv.call(input.x));
  return operators::conv2d_cat(calls);
}

}  // namespace tern::nn
