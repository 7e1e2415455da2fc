// Convolution: the way that each shape takes, and the table's slots.

#include <algorithm>
#include <optional>

#include "vectorized/conv_patches.hpp"
#include "vectorized/conv_winograd.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

// Fewer channels than a vector leave lanes empty.
constexpr std::int64_t least_channels = 12;

template <class T>
double nanoseconds(const Conv2d& shape) {
  const Sizes sizes(shape);
  return static_cast<double>(shape.N * shape.O * sizes.positions) * static_cast<double>(sizes.K) *
         static_cast<double>(sizeof(T)) / 120;
}

// ---- the choice ----------------------------------------------------------------------------------------------------
// It follows from the shape alone: the ways sum in different orders, and results must not depend on anything else.

template <class T>
bool has_winograd(const Conv2d& shape) {
  return shape.KH == shape.KW && shape.stride_h == 1 && shape.stride_w == 1 && shape.dilation_h == 1 &&
         shape.dilation_w == 1 && shape.pad_h < shape.KH && shape.pad_w < shape.KW &&
         shape.C / shape.groups >= least_channels && shape.O / shape.groups >= least_channels &&
         winograd_kernels<T>(shape.KH) != nullptr;
}

/// Of the direct ways, on one thread: rough cycles per product of a vector and a number.
template <class T>
double direct_cycles(const Conv2d& shape, double each) {
  const Sizes sizes(shape);
  return each * static_cast<double>(shape.N * sizes.positions * shape.O) * static_cast<double>(sizes.K) /
         static_cast<double>(gemm_kernels<T>().lanes);
}

template <class T>
bool takes_winograd_forward(const Conv2d& shape) {
  return has_winograd<T>(shape) && WinogradForward<T>::cycles(Correlation<T>::forward(
                                       nullptr, nullptr, nullptr, nullptr, shape)) < direct_cycles<T>(shape, 0.62);
}
template <class T>
bool takes_winograd_to_x(const Conv2d& shape) {
  return has_winograd<T>(shape) && WinogradForward<T>::cycles(Correlation<T>::to_x(
                                       nullptr, nullptr, nullptr, nullptr, shape)) < direct_cycles<T>(shape, 0.62);
}
template <class T>
bool takes_winograd_to_weight(const Conv2d& shape) {
  return has_winograd<T>(shape) && WinogradToWeight<T>::cycles(shape) < direct_cycles<T>(shape, 0.8);
}

// ---- the slots -----------------------------------------------------------------------------------------------------

kernels::Layout layout(const Context&, const Conv2d&) { return kernels::Layout::channels_first; }

template <class T>
void conv2d(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  const std::int64_t n = shape.N * shape.O * shape.OH * shape.OW;
  if (n == 0) return;
  const int threads = useful_threads(context, nanoseconds<T>(shape));
  if (takes_winograd_forward<T>(shape)) {
    const WinogradForward<T> forward(Correlation<T>::forward(y, x, weight, bias, shape), threads);
    const std::int64_t each = forward.scratch();
    const Scratch scratch(context, static_cast<std::size_t>(forward.shared() + each * threads) * sizeof(T));
    T* const shared = scratch.as<T>();
    parallel(threads, [&](const Team& team) {
      T* const mine = shared + forward.shared() + each * team.index;
      forward.prepare(team, shared, mine);
      team.barrier();
      forward.run(team, shared, mine);
    });
  } else {
    const PatchForward<T> forward(y, x, weight, bias, shape, threads);
    const std::int64_t each = forward.scratch();
    const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
    parallel(threads, [&](const Team& team) { forward.run(team, scratch.as<T>() + each * team.index); });
  }
  if (shape.activation == Activation::sigmoid) activation<T>().sigmoid(context, y, y, n);
  if (shape.activation == Activation::tanh) activation<T>().tanh(context, y, y, n);
}

template <class T>
void conv2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Conv2d& shape) {
  const Sizes sizes(shape);
  const std::int64_t n = shape.N * shape.O * sizes.positions;
  if (n == 0 || sizes.K == 0) {  // nothing flows
    if (grad_x != nullptr) std::fill_n(grad_x, shape.N * shape.C * sizes.plane, T{0});
    if (grad_weight != nullptr) std::fill_n(grad_weight, shape.O * sizes.K, T{0});
    if (grad_bias != nullptr && n == 0) std::fill_n(grad_bias, shape.O, T{0});
    if (n == 0) return;
    grad_x = grad_weight = nullptr;
  }
  const bool winograd_x = grad_x != nullptr && takes_winograd_to_x<T>(shape);
  const bool winograd_weight = grad_weight != nullptr && takes_winograd_to_weight<T>(shape);
  // Where every gradient masks what it reads, relu's gradient needs no pass of its own.
  const bool relu = shape.activation == Activation::relu;
  const bool masks = relu && (grad_x == nullptr || winograd_x) && winograd_weight;
  const bool activates = shape.activation != Activation::none && !masks;
  const Scratch activated(context, activates ? static_cast<std::size_t>(n) * sizeof(T) : 0);
  const T* const g = activates ? activated.as<T>() : grad_y;
  const T* const saved = masks ? y : nullptr;
  if (shape.activation == Activation::sigmoid)
    activation<T>().sigmoid_backward(context, activated.as<T>(), grad_y, y, n);
  if (shape.activation == Activation::tanh) activation<T>().tanh_backward(context, activated.as<T>(), grad_y, y, n);

  const int threads = useful_threads(context, 2 * nanoseconds<T>(shape));
  std::optional<WinogradToWeight<T>> tiles_to_weight;
  std::optional<WinogradForward<T>> tiles_to_x;
  std::optional<PatchToWeight<T>> patches_to_weight;
  std::optional<PatchToX<T>> patches_to_x;
  std::int64_t shared = 0, each = 0;
  if (winograd_weight) {
    tiles_to_weight.emplace(grad_weight, grad_bias, g, saved, x, shape, threads);
    each = tiles_to_weight->scratch();
  } else if (grad_weight != nullptr) {
    patches_to_weight.emplace(grad_weight, g, x, shape, threads);
    each = patches_to_weight->scratch();
    shared = patches_to_weight->partials();
  }
  if (winograd_x) {
    tiles_to_x.emplace(Correlation<T>::to_x(grad_x, g, saved, weight, shape), threads);
    each = std::max(each, tiles_to_x->scratch());
    shared = std::max(shared, tiles_to_x->shared());
  } else if (grad_x != nullptr) {
    patches_to_x.emplace(grad_x, g, weight, shape, threads);
    each = std::max(each, patches_to_x->scratch());
  }
  shared = round_up(shared, 16);
  const Scratch scratch(context, static_cast<std::size_t>(each * threads + shared) * sizeof(T));
  T* const common = scratch.as<T>();
  parallel(threads, [&](const Team& team) {
    T* const mine = common + shared + each * team.index;
    if (relu && activates) {
      const std::int64_t begin = team.begin(n, 16), end = team.end(n, 16);
      sum_kernels<T>().relu_gradient(activated.as<T>() + begin, grad_y + begin, y + begin, end - begin);
      team.barrier();
    }
    if (tiles_to_weight) tiles_to_weight->run(team, mine);
    if (patches_to_weight) {
      patches_to_weight->run(team, mine, common);
      team.barrier();
      patches_to_weight->finish(team, common);
    }
    if (grad_bias != nullptr && !tiles_to_weight) bias_gradient(team, grad_bias, g, shape);
    if (patches_to_x) patches_to_x->run(team, mine);
    if (tiles_to_x) {
      if (patches_to_weight) team.barrier();  // both use the common scratch
      tiles_to_x->prepare(team, common, mine);
      team.barrier();
      tiles_to_x->run(team, common, mine);
    }
  });
}

}  // namespace

template <class T>
kernels::Conv<T> conv() {
  return {.layout = layout, .conv2d = conv2d<T>, .conv2d_backward = conv2d_backward<T>};
}
template kernels::Conv<float> conv();
template kernels::Conv<double> conv();

}  // namespace tern::vectorized
