#include "tern/operators/normalization.hpp"

#include "operators/composed.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::operators {

namespace {

// The activations that the kernels have.
bool clips(Activation activation) { return activation == Activation::relu || activation == Activation::relu6; }

// [N, C, ...] as [N, C, area].
std::int64_t area_of(const char* op, const Tensor& x) {
  check_defined(op, "the input", x);
  expects<ShapeError>(x.rank() >= 2, op, ": input has shape ", x.shape(), ", expected [N, C, ...]");
  std::int64_t area = 1;
  for (int i = 2; i < x.rank(); ++i) area *= x.shape()[i];
  return area;
}

// Beside 16 bits, weights and biases may have x's dtype or float32, in which kernels take them.
void check_parameter_dtype(const char* op, const char* which, const Tensor& x, const Tensor& values) {
  expects<DTypeError>(values.dtype() == x.dtype() || values.dtype() == scalar_of(x.dtype()), op, ": ", which, " is ",
                      values.dtype(), ", expected ", scalar_of(x.dtype()), " beside an input of ", x.dtype(),
                      "; convert one with to(...)");
}
Tensor widened(const Tensor& values) { return values.defined() ? values.to(scalar_of(values.dtype())) : values; }

void check_per_channel(const char* which, const Tensor& x, const Tensor& values, bool statistics) {
  if (!values.defined()) return;
  if (!statistics) check_parameter_dtype("batch_norm", which, x, values);
  const DType kept = scalar_of(x.dtype());
  expects<DTypeError>(!statistics || values.dtype() == kept, "batch_norm: ", which, " is ", values.dtype(),
                      ", expected ", kept, " beside an input of ", x.dtype(), "; convert one with to(...)");
  expects<ShapeError>(values.shape() == Shape{x.shape()[1]}, "batch_norm: ", which, " ", values.shape(),
                      " does not fit the ", x.shape()[1], " channels of input ", x.shape());
}

// batch_norm in inference with a gradient, as fine-tuning needs it: composed, in float32 if x has 16 bits. What is
// added and the activation are left to the caller.
Tensor by_running(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& var,
                  double epsilon) {
  Shape per_channel = Shape::filled(x.rank(), 1);
  per_channel[1] = x.shape()[1];
  const DType wide = mean.dtype();
  const auto channel = [&](const Tensor& values) { return values.to(wide).reshape(per_channel); };
  const Tensor deviation = sqrt(add(channel(var.detach()), epsilon));
  const Tensor normal = div(sub(x.to(wide), channel(mean.detach())), deviation);
  return weight.defined() ? add(mul(normal, channel(weight)), channel(bias)) : normal;
}

}  // namespace

Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options) {
  if (traces()) return traced("local_response_norm", x, options);
  const std::int64_t area = area_of("local_response_norm", x);
  expects<ShapeError>(x.rank() >= 3, "local_response_norm: input has shape ", x.shape(), ", expected [N, C, L, ...]");
  expects<ShapeError>(options.size >= 1, "local_response_norm: size ", options.size, ", expected at least 1");
  const kernels::LocalResponseNorm sizes{x.shape()[0],  x.shape()[1], area,      options.size,
                                         options.alpha, options.beta, options.k, layout_for(x)};
  const Tensor whole = in_layout(x, sizes.layout);
  Tensor out = empty_in(sizes.layout, x.shape(), x.dtype());
  visit("local_response_norm", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().normalization.local_response_norm(call.context(), call.out(out), call.in(whole), sizes);
  });
  if (recording(x))
    record("local_response_norm", out, {x}, [x = Saved(whole), out = Saved(out), sizes](const Tensor& grad) {
      const Tensor whole_grad = in_layout(grad, sizes.layout);
      Tensor grad_in = empty_in(sizes.layout, grad.shape(), grad.dtype());
      visit("local_response_norm", grad.dtype(), [&]<class T>() {
        const Call<T> call;
        call.table().normalization.local_response_norm_backward(call.context(), call.out(grad_in), call.in(whole_grad),
                                                                call.in(x.get()), call.in(out.get()), sizes);
      });
      return Gradients{grad_in};
    });
  return out;
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var,
                  const BatchNormOptions& options, const Tensor& added) {
  if (traces()) return traced("batch_norm", x, weight, bias, running_mean, running_var, options, added);
  if (options.activation != Activation::none && !clips(options.activation)) {
    BatchNormOptions plain = options;
    plain.activation = Activation::none;
    return activate(batch_norm(x, weight, bias, running_mean, running_var, plain, added), options.activation);
  }
  const kernels::BatchNorm sizes{x.defined() && x.rank() > 0 ? x.shape()[0] : 0,
                                 x.defined() && x.rank() > 1 ? x.shape()[1] : 0,
                                 area_of("batch_norm", x),
                                 options.epsilon,
                                 options.momentum,
                                 x.defined() ? layout_for(x) : Layout::channels_first,
                                 options.activation};
  const DType kept = scalar_of(x.dtype());
  check_per_channel("weight", x, weight, false);
  check_per_channel("bias", x, bias, false);
  check_per_channel("running_mean", x, running_mean, true);
  check_per_channel("running_var", x, running_var, true);
  expects(weight.defined() == bias.defined(), "batch_norm: weight and bias come together or not at all");
  expects(running_mean.defined() == running_var.defined(),
          "batch_norm: running_mean and running_var come together or not at all");
  expects(options.training || running_mean.defined(), "batch_norm: inference needs running_mean and running_var");
  if (weight.defined() && (weight.dtype() != kept || bias.dtype() != kept))
    return batch_norm(x, widened(weight), widened(bias), running_mean, running_var, options, added);
  if (running_mean.defined() && !(running_mean.is_contiguous() && running_var.is_contiguous())) {
    // Kernels need contiguous statistics: copies, which are written back.
    const Tensor mean = running_mean.contiguous(), var = running_var.contiguous();
    Tensor out = batch_norm(x, weight, bias, mean, var, options, added);
    if (options.training) running_mean.copy_(mean), running_var.copy_(var);
    return out;
  }
  if (added.defined()) {
    check_dtypes("batch_norm", x, added);
    expects<ShapeError>(added.shape() == x.shape(), "batch_norm: added ", added.shape(), " beside an input of ",
                        x.shape(), ", expected the same shape");
  }
  if (!options.training && recording(x, weight, bias, added)) {
    const Tensor affine = by_running(x, weight, bias, running_mean, running_var, options.epsilon);
    return activate(added.defined() ? add(affine, added.to(affine.dtype())) : affine, options.activation).to(x.dtype());
  }
  const Tensor whole = in_layout(x, sizes.layout);
  const Tensor whole_added = added.defined() ? in_layout(added, sizes.layout) : Tensor{};
  const Tensor scale = weight.defined() ? weight.detach().contiguous() : Tensor{};
  const Tensor shift = bias.defined() ? bias.detach().contiguous() : Tensor{};
  Tensor out = empty_in(sizes.layout, x.shape(), x.dtype());
  if (!options.training) {
    visit("batch_norm", x.dtype(), [&]<class T>() {
      const Call<T> call;
      call.table().normalization.batch_norm_inference(
          call.context(), call.out(out), call.in(whole), call.scalars_in(scale), call.scalars_in(shift),
          call.in(whole_added), call.scalars_in(running_mean), call.scalars_in(running_var), sizes);
    });
    return out;
  }
  expects<ShapeError>(x.shape()[0] * sizes.area > 0, "batch_norm: input ", x.shape(),
                      " has no elements to normalise in training");
  expects<ShapeError>(x.shape()[0] * sizes.area > 1 || sizes.C == 0, "batch_norm: input ", x.shape(),
                      " has one value per channel, whose deviation is 0; use a larger batch");
  Tensor mean({sizes.C}, kept), inverse_deviation({sizes.C}, kept);
  visit("batch_norm", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().normalization.batch_norm(call.context(), call.out(out), call.scalars_out(mean),
                                          call.scalars_out(inverse_deviation), call.scalars_inout(running_mean),
                                          call.scalars_inout(running_var), call.in(whole), call.scalars_in(scale),
                                          call.scalars_in(shift), call.in(whole_added), sizes);
  });
  const bool activates = options.activation != Activation::none;
  if (recording(x, weight, bias, added))
    record("batch_norm", out, {x, weight, bias, added},
           [x = Saved(whole), weight = Saved(scale), bias = Saved(activates ? shift : Tensor{}),
            y = Saved(activates ? out : Tensor{}), mean = Saved(mean), inverse_deviation = Saved(inverse_deviation),
            sizes, activates, x_needs = needs(x), affine = weight.defined(), has_added = added.defined(),
            added_needs = added.defined() && needs(added)](const Tensor& grad) {
             const Tensor whole_grad = in_layout(grad, sizes.layout);
             Tensor grad_in = x_needs ? empty_in(sizes.layout, grad.shape(), grad.dtype()) : Tensor{};
             Tensor grad_weight = affine ? Tensor({sizes.C}, scalar_of(grad.dtype())) : Tensor{};
             Tensor grad_bias = affine ? Tensor({sizes.C}, scalar_of(grad.dtype())) : Tensor{};
             // Without an activation it is grad itself.
             Tensor grad_added = has_added && activates ? empty_in(sizes.layout, grad.shape(), grad.dtype()) : Tensor{};
             visit("batch_norm", grad.dtype(), [&]<class T>() {
               const Call<T> call;
               call.table().normalization.batch_norm_backward(
                   call.context(), call.out(grad_in), call.scalars_out(grad_weight), call.scalars_out(grad_bias),
                   call.out(grad_added), call.in(whole_grad), call.in(x.get()), call.scalars_in(weight.get()),
                   call.scalars_in(bias.get()), call.in(y.get()), call.scalars_in(mean.get()),
                   call.scalars_in(inverse_deviation.get()), sizes);
             });
             if (added_needs && !activates) grad_added = grad;
             return Gradients{grad_in, grad_weight, grad_bias, grad_added};
           });
  return out;
}

// ---- rows with their own statistics ----

namespace {

void check_parameter(const char* op, const char* which, const Tensor& x, const Tensor& values, const Shape& shape) {
  if (!values.defined()) return;
  check_parameter_dtype(op, which, x, values);
  expects<ShapeError>(values.shape() == shape, op, ": ", which, " ", values.shape(), " beside an input of ", x.shape(),
                      ", expected ", shape);
}

// The number of rows of `normalized_shape` in x.
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

// `sizes` without the row length, which follows from x.
Tensor row_norm(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, kernels::RowNorm sizes) {
  const bool empty = sizes.rows == 0 || x.numel() == 0;
  sizes.length = empty ? 0 : x.numel() / sizes.rows;
  const DType kept = scalar_of(x.dtype());
  const Tensor whole = x.detach().contiguous();
  if ((weight.defined() && weight.dtype() != kept) || (bias.defined() && bias.dtype() != kept))
    return row_norm(op, x, widened(weight), widened(bias), sizes);
  const Tensor scale = weight.defined() ? weight.detach().contiguous() : Tensor{};
  const Tensor shift = bias.defined() ? bias.detach().contiguous() : Tensor{};
  Tensor out(x.shape(), x.dtype()), inverse_deviation({sizes.rows}, kept);
  Tensor mean = sizes.centred ? Tensor({sizes.rows}, kept) : Tensor{};
  if (!empty)
    visit(op, x.dtype(), [&]<class T>() {
      const Call<T> call;
      call.table().normalization.row_norm(call.context(), call.out(out), call.scalars_out(mean),
                                          call.scalars_out(inverse_deviation), call.in(whole), call.scalars_in(scale),
                                          call.scalars_in(shift), sizes);
    });
  if (recording(x, weight, bias))
    record(op, out, {x, weight, bias},
           [op, empty, sizes, x = Saved(whole), weight = Saved(scale), mean = Saved(mean),
            inverse_deviation = Saved(inverse_deviation), x_needs = needs(x), weight_needs = needs(weight),
            bias_needs = needs(bias),
            parameters = weight.defined() ? weight.shape()
                         : bias.defined() ? bias.shape()
                                          : Shape{}](const Tensor& grad) {
             const auto gradient_if = [&](bool needed, const Shape& shape, DType dtype) {
               return !needed ? Tensor{} : empty ? zeros(shape, dtype) : Tensor(shape, dtype);
             };
             const DType wide = scalar_of(grad.dtype());
             Tensor grad_x = gradient_if(x_needs, grad.shape(), grad.dtype());
             Tensor grad_weight = gradient_if(weight_needs, parameters, wide);
             Tensor grad_bias = gradient_if(bias_needs, parameters, wide);
             const Tensor grad_y = grad.contiguous();
             if (!empty)
               visit(op, grad.dtype(), [&]<class T>() {
                 const Call<T> call;
                 call.table().normalization.row_norm_backward(
                     call.context(), call.out(grad_x), call.scalars_out(grad_weight), call.scalars_out(grad_bias),
                     call.in(grad_y), call.in(x.get()), call.scalars_in(weight.get()), call.scalars_in(mean.get()),
                     call.scalars_in(inverse_deviation.get()), sizes);
               });
             return Gradients{grad_x, grad_weight, grad_bias};
           });
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double epsilon) {
  if (traces()) return traced("layer_norm", x, normalized_shape, weight, bias, epsilon);
  const std::int64_t rows = rows_of("layer_norm", x, normalized_shape);
  check_parameter("layer_norm", "weight", x, weight, normalized_shape);
  check_parameter("layer_norm", "bias", x, bias, normalized_shape);
  return row_norm("layer_norm", x, weight, bias, {.rows = rows, .epsilon = epsilon});
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, std::optional<double> epsilon) {
  if (traces()) return traced("rms_norm", x, normalized_shape, weight, epsilon);
  const std::int64_t rows = rows_of("rms_norm", x, normalized_shape);
  check_parameter("rms_norm", "weight", x, weight, normalized_shape);
  const double smallest = x.dtype() == DType::float64 ? 0x1p-52 : 0x1p-23;
  return row_norm("rms_norm", x, weight, {}, {.rows = rows, .epsilon = epsilon.value_or(smallest), .centred = false});
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double epsilon) {
  if (traces()) return traced("group_norm", x, groups, weight, bias, epsilon);
  const std::int64_t channels = channels_of("group_norm", x, 2);
  expects<ShapeError>(channels > 0 && (x.shape()[0] == 0 || x.numel() > 0), "group_norm: input ", x.shape(),
                      " has examples without elements");
  expects<ShapeError>(groups >= 1 && channels % groups == 0, "group_norm: ", groups, " groups of ", channels,
                      " channels of input ", x.shape());
  check_parameter("group_norm", "weight", x, weight, {channels});
  check_parameter("group_norm", "bias", x, bias, {channels});
  const kernels::RowNorm sizes{
      .rows = x.shape()[0] * groups, .groups = groups, .area = area_of("group_norm", x), .epsilon = epsilon};
  return row_norm("group_norm", x, weight, bias, sizes);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  if (traces()) return traced("instance_norm", x, weight, bias, epsilon);
  const std::int64_t channels = channels_of("instance_norm", x, 3), planes = x.shape()[0] * channels;
  expects<ShapeError>(planes == 0 || x.numel() != planes, "instance_norm: input ", x.shape(),
                      " has one value per plane, whose deviation is 0");
  check_parameter("instance_norm", "weight", x, weight, {channels});
  check_parameter("instance_norm", "bias", x, bias, {channels});
  const kernels::RowNorm sizes{
      .rows = planes, .groups = channels, .area = area_of("instance_norm", x), .epsilon = epsilon};
  return row_norm("instance_norm", x, weight, bias, sizes);
}

}  // namespace tern::operators
