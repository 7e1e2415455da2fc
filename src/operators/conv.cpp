#include "tern/operators/conv.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "modes/aside.hpp"
#include "modes/branches.hpp"
#include "operators/conv_sizes.hpp"
#include "operators/keeps_weights.hpp"
#include "operators/layer_parameters.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::operators {

namespace {

kernels::Conv2d sizes_of(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  check_dtypes("conv2d", x, weight);
  check_rank("conv2d", "input", x, 4);
  check_rank("conv2d", "weight", weight, 4);
  const Shape &in = x.shape(), &kernel = weight.shape();
  check_groups("conv2d", in[1], kernel[0], options.groups);
  expects<ShapeError>(in[1] / options.groups == kernel[1], "conv2d: input has ", in[1], " channels, weight ", kernel,
                      " expects ", kernel[1] * options.groups, " (input ", in,
                      options.groups == 1 ? "" : message(", groups ", options.groups), ")");
  if (bias.defined()) {
    check_dtypes("conv2d", x, bias);
    expects<ShapeError>(bias.shape() == Shape{kernel[0]}, "conv2d: bias ", bias.shape(), " does not fit weight ",
                        kernel, ", expected [", kernel[0], "]");
  }
  kernels::Conv2d sizes = conv_sizes("conv2d", in, kernel[0], {kernel[2], kernel[3]}, options);
  sizes.activation = options.activation;
  return sizes;
}

/// Padding that keeps the size.
void pad_to_same(Conv2dCall& call) {
  Conv2dOptions& options = call.options;
  check_rank("conv2d", "weight", call.weight, 4);
  expects<ShapeError>(options.stride.h == 1 && options.stride.w == 1, "conv2d: same_padding with a stride of ",
                      options.stride.h, 'x', options.stride.w, "; a stride other than 1 cannot keep the size");
  const bool padded = options.padding.h != 0 || options.padding.w != 0 || options.end_padding.has_value();
  expects<ShapeError>(!padded, "conv2d: same_padding beside a padding of ", options.padding.h, 'x', options.padding.w,
                      "; name one of them");
  const auto more = [](std::int64_t taps, std::int64_t dilation) {
    constexpr std::int64_t bound = std::int64_t{1} << 31;  // window_count refuses what is beyond, and 0
    return taps >= 1 && dilation >= 1 && taps < bound && dilation < bound ? dilation * (taps - 1) : 0;
  };
  const Pair all{more(call.weight.size(2), options.dilation.h), more(call.weight.size(3), options.dilation.w)};
  options.padding = {all.h / 2, all.w / 2};
  options.end_padding = Pair{all.h - all.h / 2, all.w - all.w / 2};
  options.same_padding = false;
}

/// The same convolution with equal padding on both sides, as kernels require: x is padded by the excess.
Conv2dCall evenly_padded(const Conv2dCall& call) {
  Conv2dCall even = call;
  if (call.options.same_padding) pad_to_same(even);
  if (!even.options.end_padding) return even;
  const Pair start = even.options.padding, end = *even.options.end_padding;
  check_rank("conv2d", "input", call.x, 4);
  expects<ShapeError>(std::min({start.h, start.w, end.h, end.w}) >= 0, "conv2d: padding ", start.h, 'x', start.w,
                      " and ", end.h, 'x', end.w, ", expected 0 or more");
  even.options.padding = {std::min(start.h, end.h), std::min(start.w, end.w)};
  even.options.end_padding.reset();
  even.x = pad_planes(call.x, beyond(start, end), beyond(end, start), 0);
  return even;
}

/// Asks the mode's convolutions for a dtype: question(table, context).
template <class Answer, class Question>
Answer ask(const char* op, DType dtype, const Question& question) {
  Answer answer{};
  where_it_runs(op, [&] {
    with_type(op, dtype, [&]<class T>() {
      const Call<T> call;
      answer = question(call.table().conv, call.context());
    });
  });
  return answer;
}

}  // namespace

Layout preferred_layout(const char* op, DType dtype, const kernels::Conv2d& sizes) {
  return ask<Layout>(op, dtype, [&](const auto& table, const auto& context) { return table.layout(context, sizes); });
}

namespace {

/// A convolution with checked arguments in the mode's layout.
struct Prepared {
  kernels::Conv2d sizes;
  Tensor x = {}, weight = {}, bias = {};
  bool keeps = false;  ///< an inference, whose weights stay unchanged between calls
};

Prepared prepare(const Conv2dCall& call) {
  Prepared made{.sizes = sizes_of(call.x, call.weight, call.bias, call.options)};
  made.sizes.layout = operators::order_of(call.x);
  made.sizes.layout = preferred_layout("conv2d", call.x.dtype(), made.sizes);
  made.x = in_layout(call.x, made.sizes.layout);
  made.weight = call.weight.detach().contiguous();
  if (call.bias.defined()) made.bias = call.bias.detach().contiguous();
  made.keeps = !recording(call.x, call.weight, call.bias) && call.weight.is_contiguous();
  return made;
}

/// The gradients that a convolution must compute, and what it needs for them.
struct Backward {
  Saved x, weight;
  kernels::Conv2d sizes;
  bool x_needs, weight_needs, bias_needs, wide;

  Backward(const Conv2dCall& call, const Prepared& prepared, const LayerParameters& parameters)
      : x(saved_if(needs(call.weight) || needs(call.bias), prepared.x)),
        weight(saved_if(needs(call.x), prepared.weight)),
        sizes(prepared.sizes),
        x_needs(needs(call.x)),
        weight_needs(needs(call.weight)),
        bias_needs(needs(call.bias)),
        wide(parameters.wide) {}

  /// Takes the gradient and the output, both in the layout of `sizes`. Without an activation the output is not read and
  /// may be undefined. `index` is defined if the output is pooled.
  Gradients operator()(const Tensor& grad, const Tensor& out, const Tensor& index = {}) const {
    Tensor grad_x = x_needs ? empty_in(sizes.layout, {sizes.N, sizes.C, sizes.H, sizes.W}, grad.dtype()) : Tensor{};
    const char* const op = index.defined() ? "conv2d_max_pool2d" : "conv2d";
    const ParameterGradients of_parameters(op, grad.dtype(), wide);
    Tensor grad_weight = of_parameters.make(weight_needs, {sizes.O, sizes.C / sizes.groups, sizes.KH, sizes.KW});
    Tensor grad_bias = of_parameters.make(bias_needs, {sizes.O});
    visit(op, grad.dtype(), [&]<class T>() {
      const Call<T> call;
      call.flops(multiply_adds(sizes) * 2 * (x_needs + weight_needs));
      const auto& table = call.table().conv;
      T *const to_x = call.out(grad_x), *const to_weight = of_parameters.out(call, grad_weight),
               *const to_bias = of_parameters.out(call, grad_bias);
      const auto own_sizes = of_parameters.sizes<T>(sizes);
      const T *const y = sizes.activation != Activation::none ? call.in(out) : nullptr, *const from = call.in(grad),
                     *const images = call.in(x.get()), *const factors = call.in(weight.get());
      const std::uint8_t* const places = index.defined() ? call.template in_as<std::uint8_t>(index) : nullptr;
      const KernelAside aside(weight.get(), sizeof(T),
                              {.read = {&grad, &x.get(), &out, &index}, .written = {&grad_weight, &grad_bias}});
      if (index.defined())
        table.conv2d_max_pool2d_backward(call.context(), to_x, to_weight, to_bias, from, places, images, factors, y,
                                         own_sizes);
      else
        table.conv2d_backward(call.context(), to_x, to_weight, to_bias, from, images, factors, y, own_sizes);
    });
    return {grad_x, of_parameters.finished(grad_weight), of_parameters.finished(grad_bias)};
  }
};

void run(const Prepared& prepared, Tensor out) {
  visit("conv2d", out.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(multiply_adds(prepared.sizes) * 2);
    const T* const weight = call.in(prepared.weight);
    const KeepsWeights keeps(prepared.keeps, prepared.weight, weight, sizeof(T), *call.context().memory);
    const KernelAside aside(prepared.weight, sizeof(T));
    call.table().conv.conv2d(call.context(), call.out(out), call.in(prepared.x), weight, call.in(prepared.bias),
                             prepared.sizes);
  });
}

/// Whether the mode fuses these sizes with 2 x 2 max pooling.
bool fuses_max_pool2d(const kernels::Conv2d& sizes, DType dtype) {
  return ask<bool>("conv2d_max_pool2d", dtype,
                   [&](const auto& table, const auto& context) { return table.fuses_max_pool2d(context, sizes); });
}

/// Whether the activation is an operator of its own: its gradient needs its input; and each of the two rounds to 16
/// bits.
bool activates_apart(const Conv2dCall& call) {
  if (kernels::by_output(call.options.activation)) return false;
  return recording(call.x, call.weight, call.bias) || scalar_of(call.x.dtype()) != call.x.dtype();
}

/// Whether 16-bit tensors are converted for float32 kernels: operators that round in between are then kept apart.
bool converts(const char* op, DType dtype) {
  bool missing = false;
  kernels::with_compute_type(dtype, [&]<class T>() { missing = mode_of(op).template table<T>() == nullptr; });
  return missing;
}

Conv2dCall without_activation(Conv2dCall call) {
  call.options.activation = Activation::none;
  return call;
}

Tensor convolved(const Conv2dCall& call, const Prepared& prepared) {
  const kernels::Conv2d& sizes = prepared.sizes;
  Tensor out = empty_in(sizes.layout, {sizes.N, sizes.O, sizes.OH, sizes.OW}, call.x.dtype());
  run(prepared, out);
  if (recording(call.x, call.weight, call.bias)) {
    const LayerParameters parameters(call.weight, call.bias);
    record("conv2d", out, {call.x, parameters.weight, parameters.bias},
           [backward = Backward(call, prepared, parameters),
            out = saved_if(call.options.activation != Activation::none, out)](const Tensor& grad) {
             return backward(in_layout(grad, backward.sizes.layout), out.get());
           });
  }
  return out;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  if (traces()) return traced("conv2d", x, weight, bias, options);
  return in_batch(x, 4, [&](const Tensor& images) {
    const Conv2dCall call = evenly_padded({images, weight, bias, options});
    if (!activates_apart(call)) return convolved(call, prepare(call));
    const Conv2dCall plain = without_activation(call);
    return activate(convolved(plain, prepare(plain)), options.activation);
  });
}

Tensor conv2d_add(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& added,
                  const Conv2dOptions& options) {
  if (traces()) return traced("conv2d_add", x, weight, bias, added, options);
  check_defined("conv2d_add", "what is added", added);
  if (x.defined() && x.rank() == 3)
    return conv2d_add(x.unsqueeze(0), weight, bias, added.unsqueeze(0), options).squeeze(0);
  const Conv2dCall call = evenly_padded({x, weight, bias, options});
  const Prepared prepared = prepare(call);
  const kernels::Conv2d& sizes = prepared.sizes;
  const Shape shape{sizes.N, sizes.O, sizes.OH, sizes.OW};
  expects<DTypeError>(added.dtype() == x.dtype(), "conv2d_add: what is added is ", added.dtype(),
                      ", beside an input of ", x.dtype(), "; convert one with to(...)");
  expects<ShapeError>(added.shape() == shape, "conv2d_add: what is added is ", added.shape(), ", expected ", shape);
  const bool clips = options.activation == Activation::none || options.activation == Activation::relu ||
                     options.activation == Activation::relu6;
  // Beside an operand in order, `add` writes in order: a fused call must not decide the layout of what comes after it.
  const bool turns = sizes.layout == Layout::channels_last && added.is_contiguous() && sizes.OH * sizes.OW > 1;
  if (!clips || turns || recording(x, weight, bias, added) || converts("conv2d_add", x.dtype())) {
    const Conv2dCall plain = without_activation(call);
    return activate(add(convolved(plain, prepare(plain)), added), options.activation);
  }
  const Tensor whole = in_layout(added, sizes.layout);
  Tensor out = empty_in(sizes.layout, shape, x.dtype());
  visit("conv2d_add", x.dtype(), [&]<class T>() {
    const Call<T> use;
    use.flops(multiply_adds(sizes) * 2);
    const T* const factors = use.in(prepared.weight);
    const KeepsWeights keeps(prepared.keeps, prepared.weight, factors, sizeof(T), *use.context().memory);
    use.table().conv.conv2d_add(use.context(), use.out(out), use.in(prepared.x), factors, use.in(prepared.bias),
                                use.in(whole), sizes);
  });
  return out;
}

Tensor conv2d_max_pool2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  if (traces()) return traced("conv2d_max_pool2d", x, weight, bias, options);
  if (x.defined() && x.rank() == 3) return conv2d_max_pool2d(x.unsqueeze(0), weight, bias, options).squeeze(0);
  const Conv2dCall call = evenly_padded({x, weight, bias, options});
  if (activates_apart(call)) return max_pool2d(conv2d(x, weight, bias, options), 2);
  const Prepared prepared = prepare(call);
  const kernels::Conv2d& sizes = prepared.sizes;
  const Pair pooled = window_counts("max_pool2d", {sizes.OH, sizes.OW}, {.kernel = 2, .stride = 2});
  const Shape shape{sizes.N, sizes.O, pooled.h, pooled.w};
  if (!fuses_max_pool2d(sizes, x.dtype())) return max_pool2d(convolved(call, prepared), 2);
  Tensor out = empty_in(sizes.layout, shape, x.dtype());
  const bool records = recording(call.x, weight, bias);
  Tensor index = records ? empty_in(sizes.layout, shape, DType::uint8) : Tensor{};
  visit("conv2d_max_pool2d", x.dtype(), [&]<class T>() {
    const Call<T> use;
    use.flops(multiply_adds(sizes) * 2);
    use.table().conv.conv2d_max_pool2d(use.context(), use.out(out),
                                       records ? use.template out_as<std::uint8_t>(index) : nullptr, use.in(prepared.x),
                                       use.in(prepared.weight), use.in(prepared.bias), sizes);
  });
  if (records) {
    const LayerParameters parameters(weight, bias);
    record("conv2d_max_pool2d", out, {call.x, parameters.weight, parameters.bias},
           [backward = Backward(call, prepared, parameters),
            out = saved_if(options.activation != Activation::none, out), index = Saved(index)](const Tensor& grad) {
             return backward(in_layout(grad, backward.sizes.layout), out.get(), index.get());
           });
  }
  return out;
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& options) {
  if (traces()) return traced("conv1d", x, weight, bias, options);
  check_dtypes("conv1d", x, weight);
  check_rank("conv1d", "the weight", weight, 3);
  return in_batch(x, 3, [&](const Tensor& rows) {
    check_rank("conv1d", "the input", rows, 3);
    return conv2d(rows.unsqueeze(2), weight.unsqueeze(2), bias,
                  {.stride = {1, options.stride},
                   .padding = {0, options.padding},
                   .dilation = {1, options.dilation},
                   .groups = options.groups,
                   .activation = options.activation,
                   .same_padding = options.same_padding})
        .squeeze(2);
  });
}

Tensor conv2d_cat(const std::vector<Conv2dCall>& convolutions) {
  expects<ShapeError>(!convolutions.empty(), "conv2d_cat: no convolutions");
  if (traces()) [[unlikely]] {
    std::vector<Tensor> tensors;
    std::vector<Conv2dOptions> options;
    for (const Conv2dCall& call : convolutions) {
      tensors.insert(tensors.end(), {call.x, call.weight, call.bias});
      options.push_back(call.options);
    }
    return traced("conv2d_cat", tensors, options);
  }
  std::vector<Conv2dCall> calls;
  for (const Conv2dCall& call : convolutions) calls.push_back(evenly_padded(call));
  std::vector<Prepared> prepared;
  std::int64_t channels = 0;
  bool joins = true;
  for (const Conv2dCall& call : calls) {
    prepared.push_back(prepare(call));
    const kernels::Conv2d &own = prepared.back().sizes, &first = prepared[0].sizes;
    expects<ShapeError>(own.N == first.N && own.OH == first.OH && own.OW == first.OW, "conv2d_cat: outputs of ",
                        first.N, " images of ", first.OH, "x", first.OW, " and of ", own.N, " of ", own.OH, "x", own.OW,
                        " do not join");
    joins =
        joins && !activates_apart(call) && own.layout == Layout::channels_last && call.x.dtype() == calls[0].x.dtype();
    channels += own.O;
  }
  if (!joins) {
    std::vector<Tensor> parts;
    for (const Conv2dCall& call : calls) parts.push_back(conv2d(call.x, call.weight, call.bias, call.options));
    return cat(parts, 1);
  }
  const kernels::Conv2d& sizes = prepared[0].sizes;
  Tensor out = empty_in(Layout::channels_last, {sizes.N, channels, sizes.OH, sizes.OW}, calls[0].x.dtype());
  std::vector<Tensor> inputs;
  std::vector<LayerParameters> parameters;
  std::int64_t first = 0;
  {
    Branches beside;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      beside.next();
      prepared[i].sizes.y_channels = channels;
      run(prepared[i], slice(out, 1, first, first + prepared[i].sizes.O));
      first += prepared[i].sizes.O;
      parameters.emplace_back(calls[i].weight, calls[i].bias);
      inputs.insert(inputs.end(), {calls[i].x, parameters[i].weight, parameters[i].bias});
    }
  }
  if (!recording(inputs)) return out;
  std::vector<Backward> backwards;
  for (std::size_t i = 0; i < calls.size(); ++i) backwards.emplace_back(calls[i], prepared[i], parameters[i]);
  const bool activates =
      std::ranges::any_of(calls, [](const Conv2dCall& call) { return call.options.activation != Activation::none; });
  record("conv2d_cat", out, inputs, [backwards, out = saved_if(activates, out)](const Tensor& grad) {
    const Tensor whole_grad = in_layout(grad, Layout::channels_last);
    Gradients gradients;
    std::int64_t part = 0;
    Branches beside;
    for (const Backward& backward : backwards) {
      beside.next();
      const auto own = [&](const Tensor& whole) {
        return whole.defined() ? slice(whole, 1, part, part + backward.sizes.O) : whole;
      };
      for (const Tensor& gradient : backward(own(whole_grad), own(out.get()))) gradients.push_back(gradient);
      part += backward.sizes.O;
    }
    return gradients;
  });
  return out;
}

}  // namespace tern::operators
