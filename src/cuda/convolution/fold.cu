// Convolutions with few outputs, and gradients of few inputs, channels last: a product by cuBLASLt computes the terms
// of all taps at each position that is read, and a second kernel adds those of each position that is written. Tiles of
// an implicit product would be mostly empty, or there is none for a stride.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/implicit.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/library.cuh"

namespace tern::cuda::convolution {
namespace {

/// The written positions, and the terms [read positions, KH, KW, channels].
struct Fold {
  int channels, KH, KW, read_h, read_w;
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t pitch;  ///< elements from one written position to the next
  Divisor<std::uint32_t> fours, written_w, written_h, by_stride_h, by_stride_w;
};

/// Where a tap reads along one side; -1: nowhere.
template <bool back>
__device__ __forceinline__ int read_at(int at, int tap, int stride, int pad, int dilation, int count,
                                       const Divisor<std::uint32_t>& by_stride) {
  int from = at * stride - pad + tap * dilation;
  if constexpr (back) {
    const int padded = at + pad - tap * dilation;
    if (padded < 0) return -1;
    int rest;
    by_stride.split(padded, from, rest);
    if (rest != 0) return -1;
  }
  return static_cast<unsigned>(from) < static_cast<unsigned>(count) ? from : -1;
}

template <bool back>
__global__ void fold_kernel(float* to, const float* terms, const float* bias, std::uint32_t fours,
                            const __grid_constant__ Fold s, Activation activation) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < fours; i += step) {
    std::uint32_t position = i;
    const int channel = static_cast<int>(s.fours.split(position)) * 4;
    float* const out = to + static_cast<std::int64_t>(position) * s.pitch + channel;
    const int w = static_cast<int>(s.written_w.split(position)), h = static_cast<int>(s.written_h.split(position));
    const std::int64_t image = static_cast<std::int64_t>(position) * s.read_h;
    Pack<float, 4> sum{};
    for (int kh = 0; kh < s.KH; ++kh) {
      const int row = read_at<back>(h, kh, s.stride_h, s.pad_h, s.dilation_h, s.read_h, s.by_stride_h);
      if (row < 0) continue;
#pragma unroll 4
      for (int kw = 0; kw < s.KW; ++kw) {
        const int column = read_at<back>(w, kw, s.stride_w, s.pad_w, s.dilation_w, s.read_w, s.by_stride_w);
        if (column < 0) continue;
        const std::int64_t read = (image + row) * s.read_w + column;
        const auto term = load<4>(terms + ((read * s.KH + kh) * s.KW + kw) * s.channels + channel);
#pragma unroll
        for (int lane = 0; lane < 4; ++lane) sum.value[lane] += term.value[lane];
      }
    }
#pragma unroll
    for (int lane = 0; lane < 4; ++lane)
      sum.value[lane] =
          activate(bias == nullptr ? sum.value[lane] : sum.value[lane] + bias[channel + lane], activation);
    store(out, sum);
  }
}

/// [taps, O, C] from [O, taps, C].
__global__ void order_taps_kernel(float* to, const float* weight, std::uint32_t fours, Divisor<std::uint32_t> C,
                                  Divisor<std::uint32_t> O, int taps) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < fours; i += step) {
    std::uint32_t tap = i;
    const std::uint32_t c = C.split(tap), o = O.split(tap);
    const std::int64_t from = (static_cast<std::int64_t>(o) * taps + tap) * C.value() + c;
    store(to + static_cast<std::int64_t>(i) * 4, load<4>(weight + from * 4));
  }
}

/// Unlike packed() it keeps few channels with a stride as they are.
Task task_of(const Problem& requested) {
  Problem problem = requested;
  problem.inputs = problem.gradients = {};
  problem.packed_weight = false;
  if (requested.precision == Precision::bf16) problem.precision = Precision::tf32;
  problem.x_channels = problem.C;
  problem.epilogue = requested.pass == Pass::forward;
  if (!problem.epilogue) problem.y_channels = problem.O;
  return {problem, takes_image(requested, problem), takes_weight(requested, problem), true};
}

/// The terms of all taps, of one group after the other: [positions that are read, taps, channels that are written].
products::Problem product_of(const Problem& p) {
  const bool back = p.pass == Pass::grad_x;
  products::Problem product;
  product.batch = p.groups;
  product.m = back ? p.positions() : p.N * p.H * p.W;
  product.n = p.KH * p.KW * (back ? p.C : p.O) / p.groups;
  product.k = (back ? p.O : p.C) / p.groups;
  product.stride_a = product.m * product.k, product.stride_b = product.n * product.k;
  product.transpose_b = !back;
  product.precision = p.precision;
  product.deterministic = p.deterministic;
  product.device = p.device;
  product.inputs = {256, 16, 16, 0};
  return product;
}

struct Folded {
  /// The terms, the weight in the order of the product, and the product's workspace.
  struct Workspace {
    float *terms, *weight;
    void* rest;
    std::size_t bytes;
    Workspace(const Problem& p, int plan, void* block) {
      Parts parts(block);
      const products::Problem product = product_of(p);
      const auto take = [&](std::int64_t count) {
        return static_cast<float*>(parts.take(static_cast<std::size_t>(count) * sizeof(float)));
      };
      terms = take(product.m * product.n * product.batch);
      weight = take(p.pass == Pass::forward ? p.weights() : 0);
      rest = parts.take(products::algorithm_workspace(product, plan));
      bytes = parts.bytes();
    }
  };

  static int next_plan(const Problem&, const Task& task, int plan) {
    return products::next_algorithm(product_of(task.packed), plan);
  }
  static std::size_t workspace(const Problem&, const Task& task, int plan) {
    return Workspace(task.packed, plan, nullptr).bytes;
  }
  static void run(Context& context, const Problem&, const Task& task, const Arrays& arrays, int plan, void* workspace) {
    task.packed.pass == Pass::grad_x ? run_pass<true>(context, task.packed, arrays, plan, workspace)
                                     : run_pass<false>(context, task.packed, arrays, plan, workspace);
  }
  template <bool back>
  static void run_pass(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
    const Workspace in(p, plan, workspace);
    const auto* weight = static_cast<const float*>(arrays.weight);
    const std::int64_t taps = p.KH * p.KW;
    if (!back) {
      launch(context, Grid(blocks_for(p.weights() / 4), 256), order_taps_kernel, in.weight, weight,
             static_cast<std::uint32_t>(p.weights() / 4), Divisor<std::uint32_t>(p.C / 4), Divisor<std::uint32_t>(p.O),
             static_cast<int>(taps));
      weight = in.weight;
    }
    products::run_algorithm(context, product_of(p), {in.terms, back ? arrays.y : arrays.x, weight, nullptr}, plan,
                            in.rest);
    const auto i = [](std::int64_t value) { return static_cast<int>(value); };
    // The images of a group follow those of the last.
    const std::int64_t channels = (back ? p.C : p.O) / p.groups, fours = (back ? p.images() : p.outputs()) / 4;
    const Fold fold{i(channels),
                    i(p.KH),
                    i(p.KW),
                    i(back ? p.OH : p.H),
                    i(back ? p.OW : p.W),
                    i(p.stride_h),
                    i(p.stride_w),
                    i(p.pad_h),
                    i(p.pad_w),
                    i(p.dilation_h),
                    i(p.dilation_w),
                    back ? channels : p.y_channels,
                    Divisor<std::uint32_t>(channels / 4),
                    Divisor<std::uint32_t>(back ? p.W : p.OW),
                    Divisor<std::uint32_t>(back ? p.H : p.OH),
                    Divisor<std::uint32_t>(p.stride_h),
                    Divisor<std::uint32_t>(p.stride_w)};
    launch(context, Grid(blocks_for(fours), 256), fold_kernel<back>, static_cast<float*>(back ? arrays.x : arrays.y),
           static_cast<const float*>(in.terms), static_cast<const float*>(back ? nullptr : arrays.bias),
           static_cast<std::uint32_t>(fours), fold, back ? Activation::none : p.activation);
  }
};

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, most_terms = std::int64_t{1} << 28, side = std::int64_t{1} << 15;
  if (!p.channels_last() || !p.tensor_cores() || p.element != Element::float32 || p.stored != Element::float32 ||
      (p.groups > 1 && (!p.by_groups || p.pass != Pass::grad_x)) || p.KH * p.KW == 1 || p.C == 0 ||
      p.C / p.groups % 4 != 0 || p.O / p.groups % 4 != 0)
    return false;
  const products::Problem product = product_of(task_of(p).packed);
  const bool back = p.pass == Pass::grad_x;
  return (back ? p.inputs.x : p.inputs.y) % 16 == 0 && (back || p.y_channels % 4 == 0) &&
         product.m * product.n * product.batch < most_terms && p.images() < most && p.outputs() < most &&
         p.weights() < most && std::max({p.H, p.W, p.OH, p.OW}) < side && p.stride_h < side && p.stride_w < side &&
         p.pad_h < side && p.pad_w < side && p.KH * p.dilation_h < side && p.KW * p.dilation_w < side;
}

/// Against what else would run it; only where that is clearly slower. Of a gradient with a stride, an engine of cuDNN.
bool pays(const Problem& p) {
  constexpr double margin = 1.5, engine_rate = 50e6, dilated_rate = 10e6, launches = 8, gain = 1.2, bytes_rate = 3e6;
  if (p.precision != Precision::tf32) return false;
  const double here = fold_time(p);
  if (p.pass == Pass::grad_x && !flips(p, task_of(p).packed)) {
    if (strided_fits(p) && strided_pays(p)) return false;
    const auto work = static_cast<double>(p.outputs()) * static_cast<double>(p.C / p.groups * p.KH * p.KW);
    const double packing = static_cast<double>(2 * p.weights()) * sizeof(float) / bytes_rate;
    const double rate = p.dilation_h * p.dilation_w > 1 ? dilated_rate : engine_rate;
    return (!is_common(p) || p.groups > 1) &&
           here < gain * (work / rate + launches * static_cast<double>(p.groups)) + packing;
  }
  if (p.groups > 1) return false;
  Problem engine = in_lanes(p, 4);
  if (p.pass == Pass::grad_x) engine = flipped(engine);
  if (!implicit_fits(engine)) return true;
  const double own = implicit_time(engine);
  return margin * here < (has_engines() ? std::min(own, library_time(engine)) : own);
}
bool fits_first(const Problem& p) { return fits(p) && pays(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

constexpr auto named = "fold";

}  // namespace

const Algorithm fold_forward_first = Around<task_of, Folded>::algorithm(named, fits_first);
const Algorithm fold_forward_last = Around<task_of, Folded>::algorithm(named, fits_last);
const Algorithm fold_grad_x_first = Around<task_of, Folded>::algorithm(named, fits_first);
const Algorithm fold_grad_x_last = Around<task_of, Folded>::algorithm(named, fits_last);

}  // namespace tern::cuda::convolution
