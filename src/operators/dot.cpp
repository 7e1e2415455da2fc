#include "tern/operators/dot.hpp"

#include "modes/aside.hpp"
#include "operators/keeps_weights.hpp"
#include "operators/layer_parameters.hpp"
#include "operators/support.hpp"
#include "operators/traced.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

// One product of contiguous [..., rows, columns] factors, both of rank >= 2.
Tensor product(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const Shape &a_shape = a.shape(), &b_shape = b.shape();
  kernels::Matmul sizes;
  sizes.transpose_a = options.transpose_a;
  sizes.transpose_b = options.transpose_b;
  const int a_rank = a.rank(), b_rank = b.rank();
  sizes.m = a_shape[a_rank - (options.transpose_a ? 1 : 2)];
  sizes.k = a_shape[a_rank - (options.transpose_a ? 2 : 1)];
  sizes.n = b_shape[b_rank - (options.transpose_b ? 2 : 1)];
  const Shape a_batch(a_shape.begin(), a_shape.end() - 2), b_batch(b_shape.begin(), b_shape.end() - 2);
  Shape out_shape = broadcast("matmul", a_batch, b_batch);
  sizes.batch = element_count(out_shape);
  // A batch of one, or none, is reused for every product; other mixtures of sizes are expanded first.
  const bool a_one = element_count(a_batch) == 1, b_one = element_count(b_batch) == 1;
  const auto spread = [&](const Tensor& x, const Shape& batch, bool one) {
    if (one || batch == out_shape) return x.contiguous();
    Shape full = out_shape;
    full.push_back(x.size(-2));
    full.push_back(x.size(-1));
    return x.expand(full).contiguous();
  };
  const Tensor whole_a = spread(a, a_batch, a_one), whole_b = spread(b, b_batch, b_one);
  sizes.stride_a = a_one ? 0 : sizes.m * sizes.k;
  sizes.stride_b = b_one ? 0 : sizes.k * sizes.n;
  // Rows of one large product: [..., m, k] [k, n] needs no batch.
  if (b_one && !a_one && !options.transpose_a) {
    sizes.m *= sizes.batch;
    sizes.batch = 1;
  }
  out_shape.push_back(a_shape[a_rank - (options.transpose_a ? 1 : 2)]);
  out_shape.push_back(sizes.n);
  Tensor out(out_shape, a.dtype());
  visit("matmul", a.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(2 * sizes.batch * sizes.m * sizes.n * sizes.k);
    call.table().dot.matmul(call.context(), call.out(out), call.in(whole_a), call.in(whole_b), sizes);
  });
  return out;
}

Tensor recorded_product(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  Tensor out = product(a.detach(), b.detach(), options);
  if (recording(a, b))
    record("matmul", out, {a, b},
           [a = saved_if(needs(b), a), b = saved_if(needs(a), b), options, a_shape = a.shape(),
            b_shape = b.shape()](const Tensor& grad) {
             Gradients gradients(2);
             // 16-bit products that are added up are not rounded before.
             const auto summed = [&grad](const Tensor& left, const Tensor& right, const MatmulOptions& how,
                                         const Shape& shape) {
               const Shape batch(grad.shape().begin(), grad.shape().end() - 2);
               const DType wide = scalar_of(grad.dtype());
               if (wide == grad.dtype() || Shape(shape.begin(), shape.end() - 2) == batch)
                 return sum_to(product(left, right, how), shape);
               const Unshortened unshortened(grad.dtype());
               return sum_to(product(left.to(wide), right.to(wide), how), shape).to(grad.dtype());
             };
             // out = op(a) op(b): d op(a) = g op(b)^T, d op(b) = op(a)^T g; transposing a factor transposes its
             // gradient.
             if (b.defined())
               gradients[0] = options.transpose_a ? summed(b.get(), grad, {options.transpose_b, true}, a_shape)
                                                  : summed(grad, b.get(), {false, !options.transpose_b}, a_shape);
             if (a.defined())
               gradients[1] = options.transpose_b ? summed(grad, a.get(), {true, options.transpose_a}, b_shape)
                                                  : summed(a.get(), grad, {!options.transpose_a, false}, b_shape);
             return gradients;
           });
  return out;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  if (traces()) return traced("matmul", a, b, options);
  check_dtypes("matmul", a, b);
  expects<ShapeError>(a.rank() >= 1 && b.rank() >= 1, "matmul: factors of shapes ", a.shape(), " and ", b.shape(),
                      "; a number is not a matrix, use mul");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  expects<ShapeError>(!(row && options.transpose_a) && !(column && options.transpose_b),
                      "matmul: a vector cannot be transposed");
  const std::int64_t a_inner = a.size(options.transpose_a ? -2 : -1),
                     b_inner = b.size(column || options.transpose_b ? -1 : -2);
  expects<ShapeError>(a_inner == b_inner, "matmul: inner sizes ", a_inner, " and ", b_inner, " differ (inputs ",
                      a.shape(), options.transpose_a ? " transposed" : "", " and ", b.shape(),
                      options.transpose_b ? " transposed" : "", ")");
  Tensor out = recorded_product(row ? a.unsqueeze(0) : a, column ? b.unsqueeze(1) : b, options);
  if (column) out = out.squeeze(-1);
  if (row) out = out.squeeze(column ? -1 : -2);
  return out;
}

Tensor dot(const Tensor& a, const Tensor& b) { return matmul(a, b); }

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  if (traces()) return traced("linear", x, weight, bias, activation);
  check_dtypes("linear", x, weight);
  check_rank("linear", "weight", weight, 2);
  expects<ShapeError>(x.rank() >= 1 && x.size(-1) == weight.shape()[1], "linear: input ", x.shape(),
                      " does not end in the ", weight.shape()[1], " features that weight ", weight.shape(), " expects");
  if (bias.defined()) {
    check_dtypes("linear", x, bias);
    expects<ShapeError>(bias.shape() == Shape{weight.shape()[0]}, "linear: bias ", bias.shape(),
                        " does not fit weight ", weight.shape(), ", expected [", weight.shape()[0], "]");
  }
  kernels::Linear sizes{.in = weight.shape()[1], .out = weight.shape()[0], .activation = activation};
  sizes.rows = 1;
  for (int i = 0; i < x.rank() - 1; ++i) sizes.rows *= x.shape()[i];
  Shape out_shape(x.shape().begin(), x.shape().end() - 1);
  out_shape.push_back(sizes.out);
  if (!kernels::by_output(activation) && (recording(x, weight, bias) || scalar_of(x.dtype()) != x.dtype()))
    return activate(linear(x, weight, bias), activation);
  const Tensor whole = x.detach().contiguous(), whole_weight = weight.detach().contiguous(),
               whole_bias = bias.defined() ? bias.detach().contiguous() : Tensor{};
  Tensor out(out_shape, x.dtype());
  const bool keeps = !recording(x, weight, bias) && weight.is_contiguous();
  visit("linear", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(2 * sizes.rows * sizes.in * sizes.out);
    const T* const factors = call.in(whole_weight);
    const KeepsWeights keeping(keeps, whole_weight, factors, sizeof(T), *call.context().memory);
    call.table().dot.linear(call.context(), call.out(out), call.in(whole), factors, call.in(whole_bias), sizes);
  });
  if (recording(x, weight, bias)) {
    const LayerParameters parameters(weight, bias);
    record(
        "linear", out, {x, parameters.weight, parameters.bias},
        [x = saved_if(needs(weight), whole), weight = saved_if(needs(x), whole_weight),
         out = saved_if(activation != Activation::none, out), sizes, x_needs = needs(x), weight_needs = needs(weight),
         bias_needs = needs(bias), wide = parameters.wide, x_shape = x.shape()](const Tensor& grad) {
          const Tensor whole_grad = grad.contiguous();
          Tensor grad_x = x_needs ? Tensor(x_shape, grad.dtype()) : Tensor{};
          const ParameterGradients of_parameters("linear", grad.dtype(), wide);
          Tensor grad_weight = of_parameters.make(weight_needs, {sizes.out, sizes.in});
          Tensor grad_bias = of_parameters.make(bias_needs, {sizes.out});
          visit("linear", grad.dtype(), [&]<class T>() {
            const Call<T> call;
            call.flops(2 * sizes.rows * sizes.in * sizes.out * (x_needs + weight_needs));
            T *const to_x = call.out(grad_x), *const to_weight = of_parameters.out(call, grad_weight),
                     *const to_bias = of_parameters.out(call, grad_bias);
            const T *const from = call.in(whole_grad), *const rows = call.in(x.get()),
                           *const factors = call.in(weight.get()), *const y = call.in(out.get());
            const KernelAside aside(
                weight.get(), sizeof(T),
                {.read = {&whole_grad, &x.get(), &out.get()}, .written = {&grad_weight, &grad_bias}});
            call.table().dot.linear_backward(call.context(), to_x, to_weight, to_bias, from, rows, factors, y,
                                             of_parameters.sizes<T>(sizes));
          });
          return Gradients{grad_x, of_parameters.finished(grad_weight), of_parameters.finished(grad_bias)};
        });
  }
  return out;
}

}  // namespace tern::operators
