// Convolution: the slots, over the ways that conv_choice.hpp chooses from.

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <optional>
#include <type_traits>

#include "vectorized/conv_choice.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::Layout;

template <class T>
double nanoseconds(const Conv2d& shape) {
  const Sizes sizes(shape);
  return static_cast<double>(shape.N * shape.O * sizes.positions) * static_cast<double>(sizes.K) *
         static_cast<double>(sizeof(T)) / 120;
}

/// The layout that the forced ways work in, else the rule's.
Layout layout(const Context& context, const Conv2d& shape) {
  const bool empty = shape.N * shape.C * shape.O * shape.KH * shape.KW * shape.OH * shape.OW == 0;
  for (const Pass pass : {Pass::forward, Pass::to_x, Pass::to_weight}) {
    const std::string_view forced = forced_way(context, decision_of(pass));
    if (forced == "patches") return Layout::channels_first;
    if (empty) break;
    if (forced == "rows" || (forced == "tiles" && has_winograd<float>(pass, shape))) return Layout::channels_last;
  }
  return layout_of(shape);
}

// ---- channels last -------------------------------------------------------------------------------------------------

/// Scratch for a team: `shared` elements for all, then `each` for every part.
template <class T>
class TeamScratch {
 public:
  TeamScratch(Context& context, std::int64_t shared, std::int64_t each, int threads)
      : shared_(round_up(shared, 16)),
        each_(round_up(each, 16)),
        scratch_(context, static_cast<std::size_t>(shared_ + each_ * threads) * sizeof(T)) {}
  T* shared() const { return scratch_.template as<T>(); }
  T* of(const Team& team) const { return shared() + shared_ + each_ * team.index; }

 private:
  std::int64_t shared_, each_;
  Scratch scratch_;
};

template <class T, class Way>
void run_forward(Context& context, const Way& way, int threads) {
  const TeamScratch<T> scratch(context, way.shared(), way.scratch(), threads);
  parallel_phases(threads, 2, [&](const Team& team, int phase) {
    if (phase == 0)
      way.prepare(team, scratch.shared(), scratch.of(team));
    else
      way.run(team, scratch.shared(), scratch.of(team));
  });
}

template <class T>
void forward(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape, int threads) {
  using Problem = Correlation<T>;
  const auto run = [&](bool winograd) {
    if (winograd) {
      const WinogradForward<T> tiles(Problem::forward_folded(y, x, weight, bias, shape), threads);
      run_forward<T>(context, tiles, threads);
      if (tiles.finite()) return;
      took_way(context, decision_of(Pass::forward), "rows");  // what the tiles could not carry
    }
    run_forward<T>(context, RowsForward<T>(Problem::forward(y, x, weight, bias, shape), threads), threads);
  };
  run(takes_winograd<T>(context, {Pass::forward, shape, threads, sizeof(T), bias != nullptr, false}, run));
}

template <class T>
bool all_finite(const T* values, std::int64_t n, int threads) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr auto exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  std::atomic<bool> finite{true};
  parallel(threads, [&](const Team& team) {
    Bits found = 0;
    for (std::int64_t i = team.begin(n, 16); i < team.end(n, 16); ++i)
      found |= static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent);
    if (found != 0) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

/// The gradients of a channels-last convolution. g may be masked by `saved`.
template <class T>
struct Backward {
  T *grad_x, *grad_weight, *grad_bias;
  const T *g, *saved;
  std::int64_t g_pixel;
  const T *x, *weight;
  const Conv2d& shape;
  int threads;

  void run(Context& context, bool winograd_x, bool winograd_weight) const {
    std::optional<WinogradToWeight<T>> tiles_to_weight;
    std::optional<RowsToWeight<T>> rows_to_weight;
    std::optional<WinogradForward<T>> tiles_to_x;
    std::optional<RowsForward<T>> rows_to_x;
    std::optional<RowsToX<T>> patches_to_x;
    std::int64_t shared = 0, each = 0;
    const auto use = [&](const auto& way) {
      each = std::max(each, way.scratch());
      if constexpr (requires { way.shared(); }) shared = std::max(shared, way.shared());
    };
    if (grad_weight != nullptr && winograd_weight)
      use(tiles_to_weight.emplace(grad_weight, grad_bias, g, saved, g_pixel, x, shape, threads));
    else if (grad_weight != nullptr)
      use(rows_to_weight.emplace(grad_weight, grad_bias, g, saved, g_pixel, x, shape, threads));
    else if (grad_bias != nullptr)
      each = (bias_block + 1) * gemm_kernels<T>().panel_width;
    // As a convolution, zeros around g are multiplied, which infinity and NaN turn into NaN.
    const auto zeros_are_harmless = [&] {
      return is_plain(shape.KH, shape.KW, shape.stride_h, shape.stride_w, shape.pad_h, shape.pad_w) ||
             all_finite(weight, shape.O * (shape.C / shape.groups) * shape.KH * shape.KW, threads);
    };
    const auto turned = Correlation<T>::to_x(grad_x, g, saved, g_pixel, weight, shape);
    if (grad_x != nullptr && winograd_x)
      use(tiles_to_x.emplace(turned, threads));
    else if (grad_x != nullptr && turns_around(shape) && zeros_are_harmless())
      use(rows_to_x.emplace(turned, threads));
    else if (grad_x != nullptr)
      use(patches_to_x.emplace(grad_x, g, saved, g_pixel, weight, shape, threads));

    const TeamScratch<T> scratch(context, shared, each, threads);
    // The sums by rows need two phases, and so does the gradient of x, which uses the same scratch.
    const int weight_phases = rows_to_weight ? 2 : 0, x_phases = grad_x != nullptr ? 2 : 1;
    parallel_phases(threads, weight_phases + x_phases, [&](const Team& team, int phase) {
      T *const common = scratch.shared(), *const mine = scratch.of(team);
      if (rows_to_weight && phase == 0) return rows_to_weight->run(team, common, mine);
      if (rows_to_weight && phase == 1) return rows_to_weight->finish(team, common);
      const bool first = phase == weight_phases;
      if (first && tiles_to_weight) tiles_to_weight->run(team, mine);
      if (first && grad_weight == nullptr && grad_bias != nullptr)
        rows_bias_gradient(team, grad_bias, g, saved, g_pixel, shape.N * shape.OH * shape.OW, shape.O, mine);
      const auto to_x = [&](const auto& way) {
        if (way && first) way->prepare(team, common, mine);
        if (way && !first) way->run(team, common, mine);
      };
      to_x(tiles_to_x);
      to_x(rows_to_x);
      to_x(patches_to_x);
    });
    // What the tiles could not carry goes by rows.
    Backward again = *this;
    const bool again_x = tiles_to_x && !tiles_to_x->finite(),
               again_weight = tiles_to_weight && !tiles_to_weight->finite();
    if (!again_x) again.grad_x = nullptr;
    if (!again_weight) again.grad_weight = again.grad_bias = nullptr;
    if (again_x) took_way(context, decision_of(Pass::to_x), "rows");
    if (again_weight) took_way(context, decision_of(Pass::to_weight), "rows");
    if (again_x || again_weight) again.run(context, false, false);
  }

  void run(Context& context) const {
    Backward only_x = *this, only_weight = *this;
    only_x.grad_weight = only_x.grad_bias = only_weight.grad_x = nullptr;
    const auto trial = [&](Pass pass) {
      return Trial{pass, shape, threads, sizeof(T), pass == Pass::to_weight && grad_bias != nullptr, saved != nullptr};
    };
    const bool winograd_x = grad_x != nullptr && takes_winograd<T>(context, trial(Pass::to_x), [&](bool winograd) {
                              only_x.run(context, winograd, false);
                            });
    const bool winograd_weight =
        grad_weight != nullptr && takes_winograd<T>(context, trial(Pass::to_weight),
                                                    [&](bool winograd) { only_weight.run(context, false, winograd); });
    run(context, winograd_x, winograd_weight);
  }
};

// ---- the slots -----------------------------------------------------------------------------------------------------

/// Calls body(first element, elements) for the parts of y that are dense: all of it, or each position.
template <class Body>
void for_dense(const Conv2d& shape, std::int64_t pixel, const Body& body) {
  const std::int64_t positions = shape.N * shape.OH * shape.OW;
  if (pixel == shape.O) return body(0, positions * shape.O);
  for (std::int64_t p = 0; p < positions; ++p) body(p * pixel, shape.O);
}

std::int64_t pixel_of(const Conv2d& shape) {
  return shape.layout == Layout::channels_last && shape.y_channels != 0 ? shape.y_channels : shape.O;
}

template <class T>
void conv2d(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  if (shape.N * shape.O * shape.OH * shape.OW == 0) return;
  const int threads = useful_threads(context, nanoseconds<T>(shape));
  if (shape.layout == Layout::channels_first) {
    took_way(context, decision_of(Pass::forward), "patches");
    const PatchForward<T> forward(y, x, weight, bias, shape, threads);
    const TeamScratch<T> scratch(context, 0, forward.scratch(), threads);
    parallel(threads, [&](const Team& team) { forward.run(team, scratch.of(team)); });
  } else {
    forward(context, y, x, weight, bias, shape, threads);
  }
  if (shape.activation == Activation::sigmoid)
    for_dense(shape, pixel_of(shape),
              [&](std::int64_t at, std::int64_t n) { activation<T>().sigmoid(context, y + at, y + at, n); });
  if (shape.activation == Activation::tanh)
    for_dense(shape, pixel_of(shape),
              [&](std::int64_t at, std::int64_t n) { activation<T>().tanh(context, y + at, y + at, n); });
}

template <class T>
void patches_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* g, const T* x,
                      const T* weight, const Conv2d& shape, int threads) {
  if (grad_x != nullptr) took_way(context, decision_of(Pass::to_x), "patches");
  if (grad_weight != nullptr) took_way(context, decision_of(Pass::to_weight), "patches");
  const PatchToX<T> to_x(grad_x, g, weight, shape, threads);
  const PatchToWeight<T> to_weight(grad_weight, g, x, shape, threads);
  const std::int64_t each =
      std::max(grad_x == nullptr ? 0 : to_x.scratch(), grad_weight == nullptr ? 0 : to_weight.scratch());
  const TeamScratch<T> scratch(context, grad_weight == nullptr ? 0 : to_weight.partials(), each, threads);
  const bool partial = grad_weight != nullptr && to_weight.partials() > 0;
  parallel_phases(threads, partial ? 2 : 1, [&](const Team& team, int phase) {
    if (phase == 1) return to_weight.finish(team, scratch.shared());
    if (grad_weight != nullptr) to_weight.run(team, scratch.of(team), scratch.shared());
    if (grad_x != nullptr) to_x.run(team, scratch.of(team));
    if (grad_bias != nullptr) bias_gradient(team, grad_bias, g, shape);
  });
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
  const int threads = useful_threads(context, 2 * nanoseconds<T>(shape));
  // Channels last, relu's gradient masks what is read; otherwise the gradient before the activation is written first.
  const bool last = shape.layout == Layout::channels_last, relu = shape.activation == Activation::relu;
  const bool writes = shape.activation != Activation::none && !(last && relu);
  const Scratch written(context, writes ? static_cast<std::size_t>(n) * sizeof(T) : 0);
  std::int64_t pixel = pixel_of(shape), done = 0;
  if (writes)
    for_dense(shape, pixel, [&](std::int64_t at, std::int64_t count) {
      const auto& table = activation<T>();
      const auto& gradient = relu                                      ? table.relu_backward
                             : shape.activation == Activation::sigmoid ? table.sigmoid_backward
                                                                       : table.tanh_backward;
      gradient(context, written.as<T>() + done, grad_y + at, y + at, count);
      done += count;
    });
  const T* const g = writes ? written.as<T>() : grad_y;
  if (!last) return patches_backward(context, grad_x, grad_weight, grad_bias, g, x, weight, shape, threads);
  Backward<T>{grad_x, grad_weight, grad_bias, g,      relu ? y : nullptr, writes ? shape.O : pixel,
              x,      weight,      shape,     threads}
      .run(context);
}

}  // namespace

template <class T>
kernels::Conv<T> conv() {
  return {.layout = layout, .conv2d = conv2d<T>, .conv2d_backward = conv2d_backward<T>};
}
template kernels::Conv<float> conv();
template kernels::Conv<double> conv();

}  // namespace tern::vectorized
