// Normalisations without a slot of their own. A row of numbers is a channel to batch_norm: its statistics, fused
// forward and backward, serve all of them. A slot of its own would save the pass of weight and bias.

#include "operators/composed.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

// `rows` rows of equal length, each with mean 0 and variance 1.
Tensor normalized(const Tensor& x, std::int64_t rows, double epsilon) {
  if (x.numel() == 0 || rows == 0) return mul(x, 1);
  const Tensor flat = x.reshape({1, rows, x.numel() / rows});
  return batch_norm(flat, {}, {}, {}, {}, {.epsilon = epsilon}).reshape(x.shape());
}

void check_parameter(const char* op, const char* which, const Tensor& x, const Tensor& values, const Shape& shape) {
  if (!values.defined()) return;
  check_dtypes(op, x, values);
  expects<ShapeError>(values.shape() == shape, op, ": ", which, " ", values.shape(), " beside an input of ", x.shape(),
                      ", expected ", shape);
}

// y * weight + bias, both of `shape` and where they are defined.
Tensor with_parameters(const Tensor& y, const Tensor& weight, const Tensor& bias, const Shape& shape) {
  const auto wide = [&](const Tensor& values) { return values.to(y.dtype()).reshape(shape); };
  const Tensor scaled = weight.defined() ? mul(y, wide(weight)) : y;
  return bias.defined() ? add(scaled, wide(bias)) : scaled;
}

// How many rows of `normalized_shape` x has.
std::int64_t rows_of(const char* op, const Tensor& x, const Shape& normalized_shape) {
  check_floating(op, "the input", x);
  const int lead = x.rank() - normalized_shape.rank();
  bool fits = normalized_shape.rank() >= 1 && lead >= 0;
  for (int i = 0; fits && i < normalized_shape.rank(); ++i) fits = x.shape()[lead + i] == normalized_shape[i];
  expects<ShapeError>(fits, op, ": input ", x.shape(), " does not end in the normalised shape ", normalized_shape);
  std::int64_t rows = 1;
  for (int i = 0; i < lead; ++i) rows *= x.shape()[i];
  return rows;
}

std::int64_t channels_of(const char* op, const Tensor& x, int least_rank) {
  check_floating(op, "the input", x);
  expects<ShapeError>(x.rank() >= least_rank, op, ": input has shape ", x.shape(), ", expected [N, C, ...]");
  return x.shape()[1];
}

// One number per channel of x.
Shape per_channel(const Tensor& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = x.shape()[1];
  return shape;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double epsilon) {
  const std::int64_t rows = rows_of("layer_norm", x, normalized_shape);
  check_parameter("layer_norm", "weight", x, weight, normalized_shape);
  check_parameter("layer_norm", "bias", x, bias, normalized_shape);
  return compose("layer_norm", x, [&](const Tensor& wide) {
    return with_parameters(normalized(wide, rows, epsilon), weight, bias, normalized_shape);
  });
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, std::optional<double> epsilon) {
  rows_of("rms_norm", x, normalized_shape);
  check_parameter("rms_norm", "weight", x, weight, normalized_shape);
  const double smallest = x.dtype() == DType::float64   ? 0x1p-52
                          : x.dtype() == DType::float32 ? 0x1p-23
                          : x.dtype() == DType::float16 ? 0x1p-10
                                                        : 0x1p-7;
  Dims dims;
  for (int i = 1; i <= normalized_shape.rank(); ++i) dims.push_back(-i);
  return compose("rms_norm", x, [&](const Tensor& wide) {
    const Tensor size = sqrt(add(mean(square(wide), dims, true), epsilon.value_or(smallest)));
    return with_parameters(div(wide, size), weight, {}, normalized_shape);
  });
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double epsilon) {
  const std::int64_t channels = channels_of("group_norm", x, 2);
  expects<ShapeError>(groups >= 1 && channels % groups == 0, "group_norm: ", groups, " groups of ", channels,
                      " channels of input ", x.shape());
  check_parameter("group_norm", "weight", x, weight, {channels});
  check_parameter("group_norm", "bias", x, bias, {channels});
  return compose("group_norm", x, [&](const Tensor& wide) {
    return with_parameters(normalized(wide, x.shape()[0] * groups, epsilon), weight, bias, per_channel(x));
  });
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const std::int64_t channels = channels_of("instance_norm", x, 3), planes = x.shape()[0] * channels;
  expects<ShapeError>(planes == 0 || x.numel() != planes, "instance_norm: input ", x.shape(),
                      " has one value per plane, whose deviation is 0");
  check_parameter("instance_norm", "weight", x, weight, {channels});
  check_parameter("instance_norm", "bias", x, bias, {channels});
  return compose("instance_norm", x, [&](const Tensor& wide) {
    return with_parameters(normalized(wide, planes, epsilon), weight, bias, per_channel(x));
  });
}

}  // namespace tern::operators
