#include <optional>

#include "cuda/conv_implicit.cuh"
#include "cuda/conv_library.cuh"
#include "cuda/timing.cuh"
#include "tern/kernels/ways.hpp"

namespace tern::cuda {
namespace {

constexpr std::int64_t lane_channels = 8;  // engines with tensor cores want multiples of this

constexpr std::int64_t most_groups = 4;  // each is a call of its own

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return ceil_div(value, unit) * unit; }

// Few channels and a stride, as in a first layer: whole blocks of the stride become channels.
bool folds(const Conv2d& shape) {
  return shape.C <= 4 && shape.groups == 1 && shape.stride_h == shape.stride_w && shape.stride_h > 1 &&
         shape.stride_h <= 4 && shape.dilation_h == 1 && shape.dilation_w == 1;
}

Packing packing_of(const Conv2d& shape, bool half_width) {
  Packing packing{.channels = shape.C, .H = shape.H, .W = shape.W, .KH = shape.KH, .KW = shape.KW};
  if (folds(shape)) {
    packing.block = shape.stride_h;
    packing.KH = ceil_div(shape.KH, packing.block);
    packing.KW = ceil_div(shape.KW, packing.block);
    packing.H = shape.OH - 1 + packing.KH;
    packing.W = shape.OW - 1 + packing.KW;
    packing.before_h = shape.pad_h;
    packing.before_w = shape.pad_w;
    packing.channels = shape.C * packing.block * packing.block;
  }
  // A grouped convolution keeps its channels: the fit asks for whole lanes there.
  const bool whole_lanes = half_width || packing.block > 1;
  if (shape.groups == 1) packing.channels = round_up(packing.channels, whole_lanes ? lane_channels : lane_channels / 2);
  return packing;
}

}  // namespace

template <class T>
LibraryConv<T>::LibraryConv(Context& scope, const Conv2d& sizes)
    : context(scope), shape(sizes), packing(packing_of(sizes, !is_float)) {}

template <class T>
ConvProblem LibraryConv<T>::problem(Half half) const {
  const bool folded = packing.block > 1;
  return {.half = half,
          .N = shape.N,
          .C = packing.channels,
          .H = packing.H,
          .W = packing.W,
          .O = shape.O,
          .KH = packing.KH,
          .KW = packing.KW,
          .OH = shape.OH,
          .OW = shape.OW,
          .stride_h = folded ? 1 : shape.stride_h,
          .stride_w = folded ? 1 : shape.stride_w,
          .pad_h = folded ? 0 : shape.pad_h,
          .pad_w = folded ? 0 : shape.pad_w,
          .dilation_h = shape.dilation_h,
          .dilation_w = shape.dilation_w,
          .groups = shape.groups,
          .x_pitch = packing.channels,
          .y_pitch = shape.O,
          .bf16 = context.precision == Precision::bf16,
          .tensor_cores = context.precision != Precision::strict,
          .deterministic = context.deterministic};
}

// With stride 1, grad_x is g convolved with the weight turned by 180 degrees and its channels exchanged.
template <class T>
bool LibraryConv<T>::turns() const {
  return same_image() && shape.stride_h == 1 && shape.stride_w == 1 &&
         shape.pad_h <= shape.dilation_h * (shape.KH - 1) && shape.pad_w <= shape.dilation_w * (shape.KW - 1);
}

template <class T>
ConvProblem LibraryConv<T>::turned() const {
  ConvProblem turned = problem(Half::forward);
  std::swap(turned.C, turned.O);
  std::swap(turned.H, turned.OH);
  std::swap(turned.W, turned.OW);
  std::swap(turned.x_pitch, turned.y_pitch);
  turned.pad_h = turned.dilation_h * (turned.KH - 1) - turned.pad_h;
  turned.pad_w = turned.dilation_w * (turned.KW - 1) - turned.pad_w;
  return turned;
}

template <class T>
void LibraryConv<T>::in_two_passes(const Arrays& on) {
  const Packed<T> out(context, is_float && !joined() ? on.y : nullptr, outputs());
  bool done = false;
  if constexpr (is_float)
    if (!library_built()) {
      implicit_forward(context, out.data(), on.image, on.filter, nullptr, problem(Half::forward));
      done = true;
    }
  if (!done) run(problem(Half::forward), on.image, on.filter, out.data());
  if (!is_float || joined() || on.bias != nullptr || shape.activation != Activation::none)
    finish_rows(context, on.y, out.data(), on.bias, rows(), shape.activation);
}

template <class T>
bool LibraryConv<T>::can(Pass pass, const ConvProblem& finished, const Arrays& on) {
  if (pass == Pass::two) return true;
  if (pass == Pass::implicit) return is_float && implicit_fits(finished);
  if (on.bias == nullptr || !aligned(on.bias)) return false;
  if (pass == Pass::engine) return conv_plan(context, finished, on.image, on.filter, on.y, on.bias).engine != nullptr;
  return is_product() && product_plan(on).exists();
}

// No pass is the fastest for all sizes. Without a trial: in strict float32 the library's engines want channels first,
// and rearrange what they read and write.
template <class T>
typename LibraryConv<T>::Pass LibraryConv<T>::choose_pass(const ConvProblem& finished, const ConvKey& key,
                                                          const Arrays& on) {
  // Of the activations the others know relu alone.
  if (!finished.relu && shape.activation != Activation::none) return Pass::two;
  const std::string_view forced = forced_way(context, "conv2d");
  for (const Pass pass : {Pass::two, Pass::engine, Pass::product, Pass::implicit})
    if (forced == name_of(pass) && can(pass, finished, on)) return pass;
  std::array passes{Pass::two, Pass::engine, Pass::product, Pass::implicit};
  if ((!finished.tensor_cores || !library_built()) && can(Pass::implicit, finished, on))
    std::swap(passes.front(), passes.back());
  struct ForwardPass;
  return passes[fastest<ForwardPass>(context, key, passes.size(), [&](std::size_t i) -> std::optional<float> {
    if (!can(passes[i], finished, on)) return {};
    return microseconds(
        context, [&] { run_pass(passes[i], finished, on); }, 2, 5);
  })];
}

template <class T>
LibraryPlan LibraryConv<T>::product_plan(const Arrays& on) {
  return library_plan(context, on.y, on.image, on.filter, product_shape(),
                      Finish{on.bias, shape.activation == Activation::relu, rows().pitch});
}

template <class T>
void LibraryConv<T>::run_pass(Pass pass, const ConvProblem& finished, const Arrays& on) {
  if (pass == Pass::two) return in_two_passes(on);
  if (pass == Pass::engine) return run(finished, on.image, on.filter, on.y, on.bias);
  if constexpr (is_float)
    if (pass == Pass::implicit) return implicit_forward(context, on.y, on.image, on.filter, on.bias, finished);
  const LibraryPlan plan = product_plan(on);
  const Scratch workspace(context, plan.workspace());
  library_product<float, T>(plan, stream_of(context), workspace.as<void>(), on.y, on.image, on.filter,
                            Finish{on.bias, finished.relu, rows().pitch});
}

template <class T>
void LibraryConv<T>::forward(float* y, const float* x, const float* weight, const float* bias) {
  const Packed<T> image(context, takes_image(x) ? x : nullptr, images());
  const Packed<T> filter(context, takes_weight(weight) ? weight : nullptr, weights());
  if (!takes_image(x)) pack_image(context, image.data(), x, shape, packing);
  if (!takes_weight(weight)) pack_weight(context, filter.data(), weight, shape, packing);

  ConvProblem finished = problem(Half::forward);
  finished.float_out = finished.finished = true;
  finished.y_pitch = rows().pitch;
  finished.relu = shape.activation == Activation::relu;
  const Arrays on{image.data(), filter.data(), y, bias};
  const Pass pass = choose_pass(finished, key_of(context, shape, Half::forward, y, x, weight, bias), on);
  took_way(context, "conv2d", name_of(pass));
  run_pass(pass, finished, on);
}

namespace {

// Whether our implicit products run all three passes: without cuDNN there is nothing else that is channels last.
bool ours_alone_fit(const Conv2d& shape) {
  Context strict;
  const LibraryConv<float> conv(strict, shape);
  ConvProblem finished = conv.problem(Half::forward);
  finished.y_pitch = conv.rows().pitch;
  return conv.turns() && implicit_fits(finished) && implicit_fits(conv.turned()) &&
         implicit_fits(conv.problem(Half::grad_weight));
}

}  // namespace

bool library_conv2d_fits(const Conv2d& shape) {
  const std::int64_t images = shape.N * shape.OH * shape.OW;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (images == 0 || images >= most || shape.N * (shape.H + 8) * (shape.W + 8) >= most) return false;
  if (shape.y_channels % 4 != 0) return false;
  if (shape.C == 0 || shape.O % lane_channels != 0) return false;
  const bool whole_lanes = shape.groups == 1
                               ? shape.C <= 4 || shape.C % lane_channels == 0
                               : shape.groups <= most_groups && shape.C / shape.groups % lane_channels == 0 &&
                                     shape.O / shape.groups % lane_channels == 0;
  return whole_lanes && (library_built() || ours_alone_fit(shape));
}

namespace {

/// Calls body with the convolution in the precision of the context. bf16 lets factors be read with more bits, too:
/// where a trial found TF32 faster, because nothing has to be converted, body gets that; our own products know no
/// other.
template <class Body>
void in_precision(Context& context, const ConvKey& key, const Conv2d& shape, const Body& body) {
  if (context.precision != Precision::bf16) {
    LibraryConv<float> conv(context, shape);
    return body(conv);
  }
  LibraryConv<bf16> narrow(context, shape);
  Context tf32 = context;
  tf32.precision = Precision::tf32;
  LibraryConv<float> wide(tf32, shape);
  // What is forced is not timed: our own products know no bf16.
  const std::string_view forced = forced_way(context, key.half == Half::forward ? "conv2d" : "conv2d_grad_x");
  if (!library_built() || forced == "implicit") return body(wide);
  if (!forced.empty()) return body(narrow);
  const auto run = [&](bool wider) { wider ? body(wide) : body(narrow); };
  struct Factors;
  run(fastest<Factors>(context, key, 2, [&](std::size_t wider) {
        return std::optional(microseconds(
            context, [&] { run(wider == 1); }, 2, 5));
      }) == 1);
}

}  // namespace

void library_conv2d(Context& context, float* y, const float* x, const float* weight, const float* bias,
                    const Conv2d& shape) {
  in_precision(context, key_of(context, shape, Half::forward, y, x, weight, bias), shape,
               [&](auto& conv) { conv.forward(y, x, weight, bias); });
}

void library_conv2d_backward(Context& context, float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y,
                             const float* x, const float* weight, const float* y, const Conv2d& shape) {
  in_precision(context, key_of(context, shape, Half::grad_x, grad_x, grad_weight, grad_bias, grad_y, x, weight, y),
               shape, [&](auto& conv) { conv.backward(grad_x, grad_weight, grad_bias, grad_y, x, weight, y); });
}

template class LibraryConv<float>;
template class LibraryConv<bf16>;

}  // namespace tern::cuda
