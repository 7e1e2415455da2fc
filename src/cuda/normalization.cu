#include "cuda/batch_norm_columns.cuh"
#include "cuda/cuda.hpp"
#include "cuda/local_response_norm.cuh"
#include "cuda/row_norm.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda {
namespace {

using kernels::BatchNorm;

/// Inference on [N, C, area].
template <int V, class Pass, class Index>
__global__ void inference_kernel(Index packs, Divisor<Index> area_packs, Divisor<Index> channels, Pass pass) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < packs; i += static_cast<Index>(global_threads())) {
    Index plane = area_packs.quotient(i);
    const auto channel = pass.statistics(static_cast<std::int64_t>(channels.split(plane)));
    apply<V>(pass, channel, static_cast<std::int64_t>(i) * V);
  }
}

// ---- the slots ----

/// Whether the channels of a position are adjacent.
bool columns(const BatchNorm& sizes) { return sizes.layout == kernels::Layout::channels_last || sizes.area == 1; }

template <class T, class Pass>
void over_channels(Context& context, const BatchNorm& sizes, bool packable, const Pass& pass) {
  if (sizes.C == 0) return;
  if (columns(sizes))
    over_columns<T>(context, sizes.N * sizes.area, sizes.C, packable, pass);
  else
    over_planes<T>(context, sizes, packable, pass);
}

/// Calls function(following) with the operation after the normalisation.
template <class T, class Function>
void with_following(const T* added, Activation activation, Function function) {
  if (added == nullptr)
    function(Following<T, false>{added, activation});
  else
    function(Following<T, true>{added, activation});
}

template <class T>
void batch_norm(Context& context, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, Scalar<T>* running_mean,
                Scalar<T>* running_var, const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* added,
                const BatchNorm& sizes) {
  if (sizes.N * sizes.area == 0) return;
  with_following(added, sizes.activation, [&]<bool HasAdded>(const Following<T, HasAdded>& following) {
    BatchNormForward<T, HasAdded> pass;
    pass.y = y;
    pass.mean = mean;
    pass.inverse_deviation = inverse_deviation;
    pass.running_mean = running_mean;
    pass.running_var = running_var;
    pass.x = x;
    pass.weight = weight;
    pass.bias = bias;
    pass.following = following;
    pass.epsilon = static_cast<Scalar<T>>(sizes.epsilon);
    pass.momentum = static_cast<Scalar<T>>(sizes.momentum);
    const bool last = columns(sizes);
    pass.images = sizes.N;
    pass.area = sizes.area;
    pass.image_step = sizes.C * sizes.area;
    pass.channel_step = last ? 1 : sizes.area;
    pass.area_step = last ? sizes.C : 1;
    constexpr int V = pack_of_registers<T>;
    over_channels<T>(context, sizes, aligned<V>(x) && aligned<V>(y) && aligned<V>(added), pass);
  });
}

template <Through through, class T>
void batch_norm_backward_through(Context& context, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, T* grad_sum,
                                 const T* grad_y, const T* x, const Scalar<T>* weight, const Scalar<T>* bias,
                                 const T* y, const Scalar<T>* mean, const Scalar<T>* inverse_deviation,
                                 const BatchNorm& sizes) {
  const BatchNormBackward<T, through> pass{.grad_x = grad_x,
                                           .grad_sum = grad_sum,
                                           .grad_weight = grad_weight,
                                           .grad_bias = grad_bias,
                                           .grad_y = grad_y,
                                           .x = x,
                                           .y = y,
                                           .weight = weight,
                                           .bias = bias,
                                           .mean = mean,
                                           .inverse_deviation = inverse_deviation,
                                           .count = static_cast<Scalar<T>>(sizes.N * sizes.area),
                                           .activation = sizes.activation};
  constexpr int V = pack_of_registers<T>;
  bool packable = true;
  for (const T* pointer : std::initializer_list<const T*>{grad_x, grad_sum, grad_y, x, through == Through::y ? y : x})
    packable = packable && aligned<V>(pointer);
  over_channels<T>(context, sizes, packable, pass);
}

template <class T>
void batch_norm_backward(Context& context, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, T* grad_added,
                         const T* grad_y, const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* y,
                         const Scalar<T>* mean, const Scalar<T>* inverse_deviation, const BatchNorm& sizes) {
  const bool activates = sizes.activation != Activation::none;
  const auto run = grad_added != nullptr ? batch_norm_backward_through<Through::y, T>
                   : activates           ? batch_norm_backward_through<Through::x, T>
                                         : batch_norm_backward_through<Through::nothing, T>;
  run(context, grad_x, grad_weight, grad_bias, grad_added, grad_y, x, weight, bias, y, mean, inverse_deviation, sizes);
}

template <class T>
void batch_norm_inference(Context& context, T* y, const T* x, const Scalar<T>* weight, const Scalar<T>* bias,
                          const T* added, const Scalar<T>* running_mean, const Scalar<T>* running_var,
                          const BatchNorm& sizes) {
  constexpr int V = pack_of_registers<T>;
  const bool packable = aligned<V>(x) && aligned<V>(y) && aligned<V>(added);
  with_following(added, sizes.activation, [&]<bool HasAdded>(const Following<T, HasAdded>& following) {
    using Pass = BatchNormInference<T, HasAdded>;
    const Pass pass{.y = y,
                    .x = x,
                    .weight = weight,
                    .bias = bias,
                    .mean = running_mean,
                    .var = running_var,
                    .following = following,
                    .epsilon = static_cast<Scalar<T>>(sizes.epsilon)};
    if (columns(sizes)) return apply_columns<T>(context, sizes.N * sizes.area, sizes.C, packable, pass);
    const bool packs = packable && sizes.area % V == 0;
    const std::int64_t area_packs = packs ? sizes.area / V : sizes.area, n = sizes.N * sizes.C * area_packs;
    with_index(n, [&](auto zero) {
      using Index = decltype(zero);
      launch(context, Grid(blocks_for(n), 256),
             packs ? inference_kernel<V, Pass, Index> : inference_kernel<1, Pass, Index>, static_cast<Index>(n),
             Divisor<Index>(area_packs), Divisor<Index>(sizes.C), pass);
    });
  });
}

}  // namespace

template <class T>
kernels::Normalization<T> normalization() {
  return {.local_response_norm = local_response_norm<T>,
          .local_response_norm_backward = local_response_norm_backward<T>,
          .batch_norm = batch_norm<T>,
          .batch_norm_backward = batch_norm_backward<T>,
          .batch_norm_inference = batch_norm_inference<T>,
          .row_norm = row_norm<T>,
          .row_norm_backward = row_norm_backward<T>};
}
template kernels::Normalization<float> normalization<float>();
template kernels::Normalization<double> normalization<double>();
template kernels::Normalization<BFloat16> normalization<BFloat16>();
template kernels::Normalization<Float16> normalization<Float16>();

}  // namespace tern::cuda
