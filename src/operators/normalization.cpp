#include "tern/operators/normalization.hpp"

#include "operators/layout.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::operators {

namespace {

// [N, C, ...] as [N, C, area].
std::int64_t area_of(const char* op, const Tensor& x) {
  check_defined(op, "the input", x);
  expects<ShapeError>(x.rank() >= 2, op, ": input has shape ", x.shape(), ", expected [N, C, ...]");
  std::int64_t area = 1;
  for (int i = 2; i < x.rank(); ++i) area *= x.shape()[i];
  return area;
}

void check_per_channel(const char* which, const Tensor& x, const Tensor& values, DType dtype) {
  if (!values.defined()) return;
  expects<DTypeError>(values.dtype() == dtype, "batch_norm: ", which, " is ", values.dtype(), ", expected ", dtype,
                      " beside an input of ", x.dtype(), "; convert one with to(...)");
  expects<ShapeError>(values.shape() == Shape{x.shape()[1]}, "batch_norm: ", which, " ", values.shape(),
                      " does not fit the ", x.shape()[1], " channels of input ", x.shape());
}

// batch_norm in inference as fine-tuning wants it, with a gradient: composed, in float32 where x has 16 bits.
Tensor by_running(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& var,
                  double epsilon) {
  Shape per_channel = Shape::filled(x.rank(), 1);
  per_channel[1] = x.shape()[1];
  const DType wide = mean.dtype();
  const auto channel = [&](const Tensor& values) { return values.to(wide).reshape(per_channel); };
  const Tensor deviation = sqrt(add(channel(var.detach()), epsilon));
  const Tensor normal = div(sub(x.to(wide), channel(mean.detach())), deviation);
  return (weight.defined() ? add(mul(normal, channel(weight)), channel(bias)) : normal).to(x.dtype());
}

}  // namespace

Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options) {
  const std::int64_t area = area_of("local_response_norm", x);
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
                  const BatchNormOptions& options) {
  const kernels::BatchNorm sizes{x.defined() && x.rank() > 0 ? x.shape()[0] : 0,
                                 x.defined() && x.rank() > 1 ? x.shape()[1] : 0,
                                 area_of("batch_norm", x),
                                 options.epsilon,
                                 options.momentum,
                                 x.defined() ? layout_for(x) : Layout::channels_first};
  const DType kept = scalar_of(x.dtype());
  check_per_channel("weight", x, weight, x.dtype());
  check_per_channel("bias", x, bias, x.dtype());
  check_per_channel("running_mean", x, running_mean, kept);
  check_per_channel("running_var", x, running_var, kept);
  expects(weight.defined() == bias.defined(), "batch_norm: weight and bias come together or not at all");
  expects(running_mean.defined() == running_var.defined(),
          "batch_norm: running_mean and running_var come together or not at all");
  expects(options.training || running_mean.defined(), "batch_norm: inference needs running_mean and running_var");
  expects<ShapeError>(!running_mean.defined() || (running_mean.is_contiguous() && running_var.is_contiguous()),
                      "batch_norm: running_mean and running_var change in place and must be contiguous");
  const Tensor whole = in_layout(x, sizes.layout);
  const Tensor scale = weight.defined() ? weight.detach().contiguous() : Tensor{};
  const Tensor shift = bias.defined() ? bias.detach().contiguous() : Tensor{};
  Tensor out = empty_in(sizes.layout, x.shape(), x.dtype());
  if (!options.training) {
    if (recording(x, weight, bias)) return by_running(x, weight, bias, running_mean, running_var, options.epsilon);
    visit("batch_norm", x.dtype(), [&]<class T>() {
      const Call<T> call;
      call.table().normalization.batch_norm_inference(call.context(), call.out(out), call.in(whole), call.in(scale),
                                                      call.in(shift), call.scalars_in(running_mean),
                                                      call.scalars_in(running_var), sizes);
    });
    return out;
  }
  expects<ShapeError>(x.shape()[0] * sizes.area > 0, "batch_norm: input ", x.shape(),
                      " has no elements to normalise in training");
  Tensor mean({sizes.C}, kept), inverse_deviation({sizes.C}, kept);
  visit("batch_norm", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().normalization.batch_norm(call.context(), call.out(out), call.scalars_out(mean),
                                          call.scalars_out(inverse_deviation), call.scalars_inout(running_mean),
                                          call.scalars_inout(running_var), call.in(whole), call.in(scale),
                                          call.in(shift), sizes);
  });
  if (recording(x, weight, bias))
    record("batch_norm", out, {x, weight, bias},
           [x = Saved(whole), weight = Saved(scale), mean = Saved(mean), inverse_deviation = Saved(inverse_deviation),
            sizes, x_needs = needs(x), affine = weight.defined()](const Tensor& grad) {
             const Tensor whole_grad = in_layout(grad, sizes.layout);
             Tensor grad_in = x_needs ? empty_in(sizes.layout, grad.shape(), grad.dtype()) : Tensor{};
             Tensor grad_weight = affine ? Tensor({sizes.C}, grad.dtype()) : Tensor{};
             Tensor grad_bias = affine ? Tensor({sizes.C}, grad.dtype()) : Tensor{};
             visit("batch_norm", grad.dtype(), [&]<class T>() {
               const Call<T> call;
               call.table().normalization.batch_norm_backward(
                   call.context(), call.out(grad_in), call.out(grad_weight), call.out(grad_bias), call.in(whole_grad),
                   call.in(x.get()), call.in(weight.get()), call.scalars_in(mean.get()),
                   call.scalars_in(inverse_deviation.get()), sizes);
             });
             return Gradients{grad_in, grad_weight, grad_bias};
           });
  return out;
}

}  // namespace tern::operators
