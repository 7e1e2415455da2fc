#include "tern/operators/quantized.hpp"

#include <cmath>

#include "operators/conv_sizes.hpp"
#include "operators/keeps_weights.hpp"
#include "operators/layout.hpp"
#include "operators/pool_sizes.hpp"
#include "operators/traced.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::operators {

namespace {

using kernels::Rescale;

void check_dtype(const char* op, const char* which, const Tensor& x, DType expected) {
  check_defined(op, which, x);
  expects<DTypeError>(x.dtype() == expected, op, ": ", which, " is ", x.dtype(), ", expected ", expected,
                      expected == DType::uint8 ? "; quantize(...) makes it" : "");
}

std::int32_t checked_zero(const char* op, std::int64_t zero) {
  expects<NumericError>(zero >= 0 && zero <= 255, op, ": a zero of ", zero, ", expected one in [0, 255]");
  return static_cast<std::int32_t>(zero);
}

void check_scale(const char* op, double scale) {
  const auto rounded = static_cast<float>(scale);
  expects<NumericError>(rounded > 0 && std::isfinite(rounded), op, ": a scale of ", scale,
                        ", expected a positive float32 number");
}

/// The scale of `from` in units of the scale of `to`.
float ratio(const char* op, const Quantization& from, const Quantization& to) {
  check_scale(op, from.scale);
  check_scale(op, to.scale);
  return static_cast<float>(from.scale / to.scale);
}

/// Stored results between two bounds.
Rescale stored_within(const char* op, double low, double high, std::int64_t zero) {
  expects<NumericError>(low >= 0 && low <= high && high <= 255 && std::floor(low) == low && std::floor(high) == high,
                        op, ": bounds of ", low, " and ", high, ", expected whole numbers in [0, 255] in their order");
  const std::int32_t own = checked_zero(op, zero);
  return {.low = static_cast<float>(low - own), .high = static_cast<float>(high - own), .zero = own};
}

template <class Options>
Rescale rescale_of(const char* op, const Options& options) {
  expects<DTypeError>(options.dtype == DType::uint8 || options.dtype == DType::float32, op, ": a result of ",
                      options.dtype, ", expected uint8 or float32");
  Rescale rescale;
  if (options.dtype == DType::uint8) {
    rescale = stored_within(op, options.low.value_or(0), options.high.value_or(255), options.zero);
  } else {
    rescale.low = static_cast<float>(options.low.value_or(-infinity));
    rescale.high = static_cast<float>(options.high.value_or(infinity));
    expects<NumericError>(rescale.low <= rescale.high, op, ": bounds of ", rescale.low, " and ", rescale.high,
                          ", expected them in their order");
  }
  rescale.x_zero = checked_zero(op, options.x_zero);
  return rescale;
}

/// Calls f(call, kernels) in the mode that runs `op`.
template <class F>
void visit_quantized(const char* op, F&& f) {
  where_it_runs(op, [&] {
    const auto run = [&] {
      const auto here = [&] {
        const Call<std::uint8_t> call;
        f(call, *current_scope().mode->quantized);
      };
      const Mode& mode = *current_scope().mode;
      if (mode.quantized) [[likely]]
        here();
      else
        run_in(mode.inner != nullptr ? tern::mode(mode.inner) : reference_mode(), here);
    };
    if (!observed()) [[likely]]
      run();
    else
      observe(op, DType::uint8, [&](DType) { run(); });
  });
}

/// How the elements of a float32 tensor lie, and those of the stored one: an image channels last, others as they are.
struct Images {
  kernels::QuantizedImages sizes;
  Layout stored = Layout::channels_first;

  explicit Images(const Tensor& x) {
    const bool image = x.rank() == 4;
    if (image) stored = Layout::channels_last;
    sizes = image ? kernels::QuantizedImages{x.size(0), x.size(1), x.size(2) * x.size(3)}
                  : kernels::QuantizedImages{1, 1, x.numel()};
  }
};

std::int64_t last_size(const Tensor& x) { return x.size(-1); }

/// A convolution with checked arguments.
struct Prepared {
  kernels::Conv2d sizes;
  Tensor x, weight, bias, scale;
  bool keeps;
};

void check_layer(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                 int rank) {
  check_dtype(op, "the input", x, DType::uint8);
  check_dtype(op, "weight", weight, DType::int8);
  check_dtype(op, "bias", bias, DType::int32);
  check_dtype(op, "scale", scale, DType::float32);
  check_rank(op, "weight", weight, rank);
  for (const Tensor* each : {&bias, &scale})
    expects<ShapeError>(each->shape() == Shape{weight.size(0)}, op, ": bias or scale of shape ", each->shape(),
                        " does not fit weight ", weight.shape(), ", expected [", weight.size(0), "]");
}

Prepared prepare(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                 const QuantizedConv2dOptions& options) {
  check_layer(op, x, weight, bias, scale, 4);
  check_rank(op, "the input", x, 4);
  const Shape &in = x.shape(), &kernel = weight.shape();
  check_groups(op, in[1], kernel[0], options.groups);
  expects<ShapeError>(in[1] / options.groups == kernel[3], op, ": input ", in, " has ", in[1], " channels, weight ",
                      kernel, " [O, KH, KW, C] expects ", kernel[3] * options.groups);
  kernels::Conv2d sizes = conv_sizes(op, in, kernel[0], {kernel[1], kernel[2]}, options);
  sizes.layout = Layout::channels_last;
  return {sizes,
          in_layout(x, Layout::channels_last),
          weight.detach().contiguous(),
          bias.detach().contiguous(),
          scale.detach().contiguous(),
          weight.is_contiguous()};
}

/// `first` of the channels of `out` come before this convolution's.
void run(const char* op, const Prepared& prepared, Tensor& out, const Tensor& other, const Rescale& rescale) {
  const kernels::Conv2d& s = prepared.sizes;
  visit_quantized(op, [&](const auto& call, const kernels::Quantized& kernels) {
    call.flops(2 * multiply_adds(s));
    const auto* const weight = call.template in_as<std::int8_t>(prepared.weight);
    const KeepsWeights keeping(prepared.keeps, prepared.weight, weight, 1, *call.context().memory);
    const auto* const x = call.template in_as<std::uint8_t>(prepared.x);
    const auto* const bias = call.template in_as<std::int32_t>(prepared.bias);
    const auto* const scale = call.template in_as<float>(prepared.scale);
    if (out.dtype() == DType::float32)
      kernels.conv2d_float(call.context(), call.template out_as<float>(out), x, weight, bias, scale, s, rescale);
    else
      kernels.conv2d(call.context(), call.template out_as<std::uint8_t>(out), x, weight, bias, scale,
                     other.defined() ? call.template in_as<std::uint8_t>(other) : nullptr, s, rescale);
  });
}

kernels::Pool2d stored_pool_sizes(const char* op, const Tensor& x, const Windows& windows) {
  check_dtype(op, "the input", x, DType::uint8);
  kernels::Pool2d sizes = pool_sizes(op, x, windows);
  sizes.channels = x.size(1);
  return sizes;
}

/// Runs kernel(kernels, context, out, in) on images [N, C, H, W] of uint8.
template <class Kernel>
Tensor pooled(const char* op, const Tensor& x, std::int64_t OH, std::int64_t OW, Kernel&& kernel) {
  const Tensor whole = in_layout(x, Layout::channels_last);
  Tensor out = empty_in(Layout::channels_last, {x.size(0), x.size(1), OH, OW}, DType::uint8);
  if (out.numel() == 0) return out;
  visit_quantized(op, [&](const auto& call, const kernels::Quantized& kernels) {
    kernel(kernels, call.context(), call.template out_as<std::uint8_t>(out), call.template in_as<std::uint8_t>(whole));
  });
  return out;
}

}  // namespace

Tensor quantize(const Tensor& x, const Quantization& as) {
  if (traces()) return traced("quantize", x, as);
  constexpr const char* op = "quantize";
  check_dtype(op, "the input", x, DType::float32);
  Rescale rescale = stored_within(op, 0, 255, as.zero);
  check_scale(op, as.scale);
  rescale.x_scale = static_cast<float>(1 / as.scale);
  Images images(x);
  const Tensor whole = dense(x);
  if (layout_of(whole) == Layout::channels_last) images.sizes = {1, 1, x.numel()};
  Tensor out = empty_in(images.stored, x.shape(), DType::uint8);
  visit_quantized(op, [&](const auto& call, const kernels::Quantized& kernels) {
    const auto* const in = call.template in_as<float>(whole);
    kernels.quantize(call.context(), call.template out_as<std::uint8_t>(out), in, images.sizes, rescale);
  });
  return out;
}

Tensor dequantize(const Tensor& x, const Quantization& as) {
  if (traces()) return traced("dequantize", x, as);
  constexpr const char* op = "dequantize";
  check_dtype(op, "the input", x, DType::uint8);
  check_scale(op, as.scale);
  const Rescale rescale{.x_zero = checked_zero(op, as.zero), .x_scale = static_cast<float>(as.scale)};
  Images images(x);
  const Tensor whole = in_layout(x, images.stored);
  // Where the mode takes images channels last, they stay so.
  const bool last = images.stored == Layout::channels_last && current_scope().mode->channels_last(DType::float32);
  if (last) images.sizes = {1, 1, x.numel()};
  Tensor out = empty_in(last ? Layout::channels_last : Layout::channels_first, x.shape(), DType::float32);
  visit_quantized(op, [&](const auto& call, const kernels::Quantized& kernels) {
    const auto* const in = call.template in_as<std::uint8_t>(whole);
    kernels.dequantize(call.context(), call.template out_as<float>(out), in, images.sizes, rescale);
  });
  return out;
}

Tensor quantized_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                        const Tensor& other, const QuantizedConv2dOptions& options) {
  if (traces()) return traced("quantized_conv2d", x, weight, bias, scale, other, options);
  constexpr const char* op = "quantized_conv2d";
  const Prepared prepared = prepare(op, x, weight, bias, scale, options);
  const kernels::Conv2d& s = prepared.sizes;
  Rescale rescale = rescale_of(op, options);
  Tensor out = empty_in(Layout::channels_last, {s.N, s.O, s.OH, s.OW}, options.dtype), summand;
  if (other.defined()) {
    check_dtype(op, "other", other, DType::uint8);
    expects<DTypeError>(options.dtype == DType::uint8, op, ": a float32 result adds no other tensor");
    expects<ShapeError>(other.shape() == out.shape(), op, ": other has shape ", other.shape(), ", the result ",
                        out.shape());
    summand = in_layout(other, Layout::channels_last);
    rescale.other_zero = checked_zero(op, options.other_zero);
    rescale.other_scale = static_cast<float>(options.other_scale);
  }
  run(op, prepared, out, summand, rescale);
  return out;
}

Tensor quantized_conv2d_cat(const std::vector<Tensor>& tensors, const std::vector<QuantizedConv2dOptions>& options) {
  if (traces()) return traced("quantized_conv2d_cat", tensors, options);
  constexpr const char* op = "quantized_conv2d_cat";
  expects(!options.empty() && tensors.size() == 4 * options.size(), op, ": ", tensors.size(), " tensors for ",
          options.size(), " convolutions, expected x, weight, bias and scale of each");
  std::vector<Prepared> all;
  std::int64_t channels = 0;
  for (std::size_t i = 0; i < options.size(); ++i) {
    all.push_back(prepare(op, tensors[4 * i], tensors[4 * i + 1], tensors[4 * i + 2], tensors[4 * i + 3], options[i]));
    const kernels::Conv2d &s = all[i].sizes, &first = all[0].sizes;
    expects<ShapeError>(s.N == first.N && s.OH == first.OH && s.OW == first.OW, op, ": convolution ", i, " gives [",
                        s.N, ",", s.O, ",", s.OH, ",", s.OW, "], the first [", first.N, ",", first.O, ",", first.OH,
                        ",", first.OW, "]");
    expects<DTypeError>(options[i].dtype == DType::uint8, op, ": a result of ", options[i].dtype, ", expected uint8");
    channels += s.O;
  }
  const kernels::Conv2d& first = all[0].sizes;
  Tensor out = empty_in(Layout::channels_last, {first.N, channels, first.OH, first.OW}, DType::uint8);
  std::int64_t from = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].sizes.y_channels = channels;
    Tensor part = slice(out, 1, from, from + all[i].sizes.O);
    from += all[i].sizes.O;
    run(op, all[i], part, {}, rescale_of(op, options[i]));
  }
  return out;
}

Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                        const QuantizedLinearOptions& options) {
  if (traces()) return traced("quantized_linear", x, weight, bias, scale, options);
  constexpr const char* op = "quantized_linear";
  check_layer(op, x, weight, bias, scale, 2);
  expects<ShapeError>(x.rank() >= 1 && last_size(x) == weight.size(1), op, ": input ", x.shape(),
                      " does not end in the ", weight.size(1), " features that weight ", weight.shape(), " expects");
  Shape shape(x.shape().begin(), x.shape().end() - 1);
  const std::int64_t rows = element_count(shape);
  shape.push_back(weight.size(0));
  const Prepared prepared{{.N = rows,
                           .C = weight.size(1),
                           .H = 1,
                           .W = 1,
                           .O = weight.size(0),
                           .OH = 1,
                           .OW = 1,
                           .layout = Layout::channels_last},
                          x.detach().contiguous(),
                          weight.detach().contiguous(),
                          bias.detach().contiguous(),
                          scale.detach().contiguous(),
                          weight.is_contiguous()};
  Tensor out(shape, options.dtype);
  run(op, prepared, out, {}, rescale_of(op, options));
  return out;
}

Tensor quantized_add(const Tensor& a, const Tensor& b, const QuantizedAddOptions& options) {
  if (traces()) return traced("quantized_add", a, b, options);
  constexpr const char* op = "quantized_add";
  check_dtype(op, "the first input", a, DType::uint8);
  check_dtype(op, "the second input", b, DType::uint8);
  expects<ShapeError>(a.shape() == b.shape(), op, ": inputs of shapes ", a.shape(), " and ", b.shape(),
                      ", expected one shape");
  Rescale rescale =
      stored_within(op, static_cast<double>(options.low), static_cast<double>(options.high), options.result.zero);
  rescale.x_zero = checked_zero(op, options.a.zero);
  rescale.x_scale = ratio(op, options.a, options.result);
  rescale.other_zero = checked_zero(op, options.b.zero);
  rescale.other_scale = ratio(op, options.b, options.result);
  const Layout layout = a.rank() == 4 ? Layout::channels_last : Layout::channels_first;
  const Tensor whole_a = in_layout(a, layout), whole_b = in_layout(b, layout);
  Tensor out = empty_in(layout, a.shape(), DType::uint8);
  visit_quantized(op, [&](const auto& call, const kernels::Quantized& kernels) {
    kernels.add(call.context(), call.template out_as<std::uint8_t>(out), call.template in_as<std::uint8_t>(whole_a),
                call.template in_as<std::uint8_t>(whole_b), a.numel(), rescale);
  });
  return out;
}

Tensor quantized_cat(const std::vector<Tensor>& tensors, const std::vector<Quantization>& from,
                     const Quantization& result) {
  if (traces()) return traced("quantized_cat", tensors, from, result);
  constexpr const char* op = "quantized_cat";
  expects(!tensors.empty() && tensors.size() == from.size(), op, ": ", tensors.size(), " tensors and ", from.size(),
          " quantizations, expected one of each");
  std::int64_t columns = 0;
  for (const Tensor& x : tensors) {
    check_dtype(op, "an input", x, DType::uint8);
    const Tensor& first = tensors[0];
    bool fits = (x.rank() == 4 || x.rank() == 2) && x.rank() == first.rank();
    for (int d = 0; fits && d < x.rank(); ++d) fits = d == 1 || x.size(d) == first.size(d);
    expects<ShapeError>(fits, op, ": an input of shape ", x.shape(), " beside ", first.shape(),
                        ", expected [N, C, H, W] or [N, C] that differ in C alone");
    columns += x.size(1);
  }
  Shape shape = tensors[0].shape();
  shape[1] = columns;
  const Layout layout = shape.rank() == 4 ? Layout::channels_last : Layout::channels_first;
  Tensor out = empty_in(layout, shape, DType::uint8);
  std::int64_t before = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t own = tensors[i].size(1);
    Rescale rescale = stored_within(op, 0, 255, result.zero);
    rescale.x_zero = checked_zero(op, from[i].zero);
    rescale.x_scale = ratio(op, from[i], result);
    const Tensor whole = in_layout(tensors[i], layout);
    Tensor part = slice(out, 1, before, before + own);
    before += own;
    if (whole.numel() == 0) continue;
    visit_quantized(op, [&](const auto& call, const kernels::Quantized& kernels) {
      kernels.rescale(call.context(), call.template out_as<std::uint8_t>(part),
                      call.template in_as<std::uint8_t>(whole), whole.numel() / own, own, columns, rescale);
    });
  }
  return out;
}

Tensor quantized_max_pool2d(const Tensor& x, Pair kernel, const QuantizedPoolOptions& options) {
  if (traces()) return traced("quantized_max_pool2d", x, kernel, options);
  constexpr const char* op = "quantized_max_pool2d";
  const kernels::Pool2d sizes = stored_pool_sizes(op, x, windows_of(kernel, options));
  return pooled(op, x, sizes.OH, sizes.OW, [&](const auto& kernels, Context& context, auto* out, const auto* in) {
    kernels.max_pool2d(context, out, in, sizes);
  });
}

namespace {

Rescale average_of(const char* op, const QuantizedAveragePoolOptions& options) {
  Rescale rescale = stored_within(op, 0, 255, options.result.zero);
  rescale.x_zero = checked_zero(op, options.x.zero);
  rescale.x_scale = ratio(op, options.x, options.result);
  return rescale;
}

}  // namespace

Tensor quantized_avg_pool2d(const Tensor& x, Pair kernel, const QuantizedAveragePoolOptions& options) {
  if (traces()) return traced("quantized_avg_pool2d", x, kernel, options);
  constexpr const char* op = "quantized_avg_pool2d";
  kernels::Pool2d sizes = stored_pool_sizes(op, x, windows_of(kernel, options));
  sizes.count_include_pad = options.count_include_pad;
  const Rescale rescale = average_of(op, options);
  return pooled(op, x, sizes.OH, sizes.OW, [&](const auto& kernels, Context& context, auto* out, const auto* in) {
    kernels.avg_pool2d(context, out, in, sizes, rescale);
  });
}

Tensor quantized_adaptive_avg_pool2d(const Tensor& x, Pair output, const QuantizedAveragePoolOptions& options) {
  if (traces()) return traced("quantized_adaptive_avg_pool2d", x, output, options);
  constexpr const char* op = "quantized_adaptive_avg_pool2d";
  check_dtype(op, "the input", x, DType::uint8);
  check_rank(op, "the input", x, 4);
  expects<ShapeError>(output.h >= 1 && output.w >= 1, op, ": output ", output.h, "x", output.w,
                      ", expected at least 1x1");
  expects<ShapeError>(x.size(2) >= 1 && x.size(3) >= 1, op, ": input ", x.shape(), " has an empty plane");
  const Rescale rescale = average_of(op, options);
  const kernels::AdaptivePool2d sizes{x.size(0) * x.size(1), x.size(2), x.size(3), output.h, output.w, x.size(1)};
  return pooled(op, x, output.h, output.w, [&](const auto& kernels, Context& context, auto* out, const auto* in) {
    kernels.adaptive_avg_pool2d(context, out, in, sizes, rescale);
  });
}

}  // namespace tern::operators
