#include <algorithm>

#include "cuda/convolution/general.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace {

using namespace general;

// ---- forward: [O, C KH KW] times [C KH KW, positions] ----

template <class T>
struct WeightRows {
  using Place = Places<true>;
  const T* weight;  // of this group
  int first, rows, row_length;
  __device__ __forceinline__ void load(T (&value)[part], int k0, int k_end) const {
    const int k = k0 + Place::k(0);
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int row = first + Place::row(i);
      value[i] = row < rows && k < k_end ? weight[static_cast<std::int64_t>(row) * row_length + k] : T(0);
    }
  }
};

template <class T>
struct Patches {
  using Place = Places<false>;
  const Geometry& g;
  const T* x;  // of this position's image and group
  int h, w;    // of the window's first element
  bool inside;
  __device__ Patches(const Geometry& geometry, const T* images, int group, int first) : g(geometry) {
    const int position = first + Place::row(0);
    inside = position < g.positions;
    int image, rest, oh, ow;
    g.area.split(inside ? position : 0, image, rest);
    g.width.split(rest, oh, ow);
    h = oh * g.stride_h - g.pad_h;
    w = ow * g.stride_w - g.pad_w;
    x = images + (static_cast<std::int64_t>(image) * g.groups + group) * g.C * g.H * g.W;
  }
  __device__ __forceinline__ void load(T (&value)[part], int k0, int k_end) const {
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int k = k0 + Place::k(i);
      int c, rest, kh, kw;
      g.window.split(k, c, rest);
      g.window_width.split(rest, kh, kw);
      const int row = h + kh * g.dilation_h, column = w + kw * g.dilation_w;
      const bool valid = inside && k < k_end && row >= 0 && row < g.H && column >= 0 && column < g.W;
      value[i] = valid ? x[(static_cast<std::int64_t>(c) * g.H + row) * g.W + column] : T(0);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(threads) forward_kernel(T* y, const T* x, const T* weight, const T* bias,
                                                          const __grid_constant__ Geometry g, Activation activation) {
  begin_kernel();
  const int group = g.first_group + static_cast<int>(blockIdx.z), row0 = static_cast<int>(blockIdx.y) * tile;
  const int position0 = static_cast<int>(blockIdx.x) * tile, length = g.C * g.KH * g.KW;
  WeightRows<T> a{weight + static_cast<std::int64_t>(group) * g.O * length, row0, g.O, length};
  Patches<T> b(g, x, group, position0);
  T sum[part][part] = {}, unused[part] = {};
  multiply(sum, unused, a, b, 0, length, false);
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int c = 0; c < part; ++c) {
    const int position = position0 + tx * part + c;
    if (position >= g.positions) break;
    int image, rest;
    g.area.split(position, image, rest);
#pragma unroll
    for (int r = 0; r < part; ++r) {
      const int o = row0 + ty * part + r;
      if (o >= g.O) break;
      const std::int64_t channel = static_cast<std::int64_t>(group) * g.O + o;
      const T value = bias == nullptr ? sum[r][c] : sum[r][c] + bias[channel];
      y[(static_cast<std::int64_t>(image) * g.groups * g.O + channel) * (g.OH * g.OW) + rest] =
          activate(value, activation);
    }
  }
}

// ---- the gradient of x: [C, O KH KW] times [O KH KW, inputs] ----

template <class T>
struct WeightColumns {
  using Place = Places<true>;
  const Geometry& g;
  const T* weight;  // of this group
  int first;
  __device__ __forceinline__ void load(T (&value)[part], int k0, int k_end) const {
    const int k = k0 + Place::k(0);
    int o, rest;
    g.window.split(k, o, rest);
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int c = first + Place::row(i);
      value[i] = c < g.C && k < k_end ? weight[(static_cast<std::int64_t>(o) * g.C + c) * (g.KH * g.KW) + rest] : T(0);
    }
  }
};

template <class T>
struct Reached {
  using Place = Places<false>;
  const Geometry& g;
  const T* gradient;  // of this image and group
  int h, w;
  bool inside;
  __device__ Reached(const Geometry& geometry, const T* gradients, int group, int first) : g(geometry) {
    const int position = first + Place::row(0);
    inside = position < g.inputs;
    int image, rest, row, column;
    g.in_area.split(inside ? position : 0, image, rest);
    g.in_width.split(rest, row, column);
    h = row + g.pad_h;
    w = column + g.pad_w;
    gradient = gradients + (static_cast<std::int64_t>(image) * g.groups + group) * g.O * g.OH * g.OW;
  }
  __device__ __forceinline__ void load(T (&value)[part], int k0, int k_end) const {
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int k = k0 + Place::k(i);
      int o, rest, kh, kw;
      g.window.split(k, o, rest);
      g.window_width.split(rest, kh, kw);
      const int down = h - kh * g.dilation_h, across = w - kw * g.dilation_w;
      value[i] = T(0);
      if (!inside || k >= k_end || down < 0 || across < 0) continue;
      int oh, off_h, ow, off_w;
      g.stride_rows.split(down, oh, off_h);
      g.stride_columns.split(across, ow, off_w);
      if (off_h == 0 && off_w == 0 && oh < g.OH && ow < g.OW)
        value[i] = gradient[(static_cast<std::int64_t>(o) * g.OH + oh) * g.OW + ow];
    }
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    grad_x_kernel(T* grad_x, const T* gradient, const T* weight, const __grid_constant__ Geometry g) {
  begin_kernel();
  const int group = g.first_group + static_cast<int>(blockIdx.z), row0 = static_cast<int>(blockIdx.y) * tile;
  const int position0 = static_cast<int>(blockIdx.x) * tile, window = g.KH * g.KW;
  WeightColumns<T> a{g, weight + static_cast<std::int64_t>(group) * g.O * g.C * window, row0};
  Reached<T> b(g, gradient, group, position0);
  T sum[part][part] = {}, unused[part] = {};
  multiply(sum, unused, a, b, 0, g.O * window, false);
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int c = 0; c < part; ++c) {
    const int position = position0 + tx * part + c;
    if (position >= g.inputs) break;
    int image, rest;
    g.in_area.split(position, image, rest);
#pragma unroll
    for (int r = 0; r < part; ++r) {
      const int channel = row0 + ty * part + r;
      if (channel >= g.C) break;
      grad_x[((static_cast<std::int64_t>(image) * g.groups + group) * g.C + channel) * (g.H * g.W) + rest] = sum[r][c];
    }
  }
}

// ---- the gradient of the weight: [O, positions] times [positions, C KH KW] ----

template <class T>
struct GradientRows {
  using Place = Places<true>;
  const Geometry& g;
  const T* gradient;  // of this group, first image
  int first;
  __device__ __forceinline__ void load(T (&value)[part], int k0, int k_end) const {
    const int position = k0 + Place::k(0);
    int image, rest;
    g.area.split(min(position, g.positions - 1), image, rest);
    const T* from = gradient + static_cast<std::int64_t>(image) * g.groups * g.O * g.OH * g.OW + rest;
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int o = first + Place::row(i);
      value[i] = o < g.O && position < k_end ? from[static_cast<std::int64_t>(o) * g.OH * g.OW] : T(0);
    }
  }
};

template <class T>
struct PatchRows {
  using Place = Places<true>;
  const Geometry& g;
  const T* x;  // of this group, first image
  int row[part], column[part];
  std::int64_t offset[part];  // negative: no such column
  __device__ PatchRows(const Geometry& geometry, const T* images, int group, int first) : g(geometry) {
    x = images + static_cast<std::int64_t>(group) * g.C * g.H * g.W;
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int at = first + Place::row(i);
      int c, rest, kh, kw;
      g.window.split(at, c, rest);
      g.window_width.split(rest, kh, kw);
      row[i] = kh * g.dilation_h - g.pad_h;
      column[i] = kw * g.dilation_w - g.pad_w;
      offset[i] = c < g.C ? static_cast<std::int64_t>(c) * g.H * g.W : -1;
    }
  }
  __device__ __forceinline__ void load(T (&value)[part], int k0, int k_end) const {
    const int position = k0 + Place::k(0);
    int image, rest, oh, ow;
    g.area.split(min(position, g.positions - 1), image, rest);
    g.width.split(rest, oh, ow);
    const T* from = x + static_cast<std::int64_t>(image) * g.groups * g.C * g.H * g.W;
#pragma unroll
    for (int i = 0; i < part; ++i) {
      const int h = oh * g.stride_h + row[i], w = ow * g.stride_w + column[i];
      const bool valid = position < k_end && offset[i] >= 0 && h >= 0 && h < g.H && w >= 0 && w < g.W;
      value[i] = valid ? from[offset[i] + static_cast<std::int64_t>(h) * g.W + w] : T(0);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    grad_weight_kernel(T* partials, const T* gradient, const T* x, int slices, const __grid_constant__ Geometry g) {
  begin_kernel();
  const int group = g.first_group + static_cast<int>(blockIdx.z) / slices,
            slice = static_cast<int>(blockIdx.z) % slices;
  const int row0 = static_cast<int>(blockIdx.y) * tile, column0 = static_cast<int>(blockIdx.x) * tile;
  const int length = g.C * g.KH * g.KW;
  const int share = ((g.positions + slices - 1) / slices + depth - 1) / depth * depth;
  const int begin = min(slice * share, g.positions), end = min(begin + share, g.positions);
  GradientRows<T> a{g, gradient + static_cast<std::int64_t>(group) * g.O * g.OH * g.OW, row0};
  PatchRows<T> b(g, x, group, column0);
  T sum[part][part] = {}, row_sum[part] = {};
  multiply(sum, row_sum, a, b, begin, end, column0 == 0);
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  const std::int64_t channels = static_cast<std::int64_t>(g.groups) * g.O, weights = channels * length;
  T* to = partials + slice * (weights + channels);
#pragma unroll
  for (int r = 0; r < part; ++r) {
    const int o = row0 + ty * part + r;
    if (o >= g.O) break;
    const std::int64_t channel = static_cast<std::int64_t>(group) * g.O + o;
#pragma unroll
    for (int c = 0; c < part; ++c) {
      const int column = column0 + tx * part + c;
      if (column < length) to[channel * length + column] = sum[r][c];
    }
    if (column0 == 0 && tx == 0) to[weights + channel] = row_sum[r];
  }
}

unsigned tiles(std::int64_t extent) { return static_cast<unsigned>(ceil_div(extent, tile)); }

constexpr std::int64_t most_layers = 65535;  // of a grid

/// Calls launch_groups(geometry, layers) until all groups have been launched, each with `layers_each` of them.
template <class LaunchGroups>
void for_groups(Geometry g, std::int64_t layers_each, const LaunchGroups& launch_groups) {
  const std::int64_t groups = g.groups, most = most_layers / layers_each;
  for (std::int64_t first = 0; first < groups; first += most) {
    g.first_group = static_cast<int>(first);
    launch_groups(g, static_cast<unsigned>(std::min(most, groups - first) * layers_each));
  }
}

template <class T>
void run_forward(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  for_groups(geometry(problem), 1, [&](const Geometry& g, unsigned layers) {
    launch(context, Grid(dim3(tiles(g.positions), tiles(g.O), layers), threads), forward_kernel<T>,
           static_cast<T*>(arrays.y), static_cast<const T*>(arrays.x), static_cast<const T*>(arrays.weight),
           static_cast<const T*>(arrays.bias), g, problem.activation);
  });
}

template <class T>
void run_grad_x(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  for_groups(geometry(problem), 1, [&](const Geometry& g, unsigned layers) {
    launch(context, Grid(dim3(tiles(g.inputs), tiles(g.C), layers), threads), grad_x_kernel<T>,
           static_cast<T*>(arrays.x), static_cast<const T*>(arrays.y), static_cast<const T*>(arrays.weight), g);
  });
}

// The number of parts of the sum over the positions.
std::int64_t slices_of(const Problem& problem) {
  const std::int64_t blocks = static_cast<std::int64_t>(tiles(problem.O / problem.groups)) *
                              tiles(problem.C / problem.groups * problem.KH * problem.KW) * problem.groups;
  const std::int64_t wanted = ceil_div(3 * card().multiprocessors, blocks);
  const std::int64_t most = ceil_div(problem.positions(), 16 * depth);
  return std::clamp<std::int64_t>(std::min(wanted, most), 1, most_layers);
}

std::size_t workspace_of(const Problem& problem, int) {
  return static_cast<std::size_t>(slices_of(problem) * (problem.weights() + problem.O) * bytes_of(problem.element));
}

template <class T>
void run_grad_weight(Context& context, const Problem& problem, const Arrays& arrays, int, void* workspace) {
  const std::int64_t slices = slices_of(problem);
  auto* const partials = static_cast<T*>(workspace);
  for_groups(geometry(problem), slices, [&](const Geometry& g, unsigned layers) {
    launch(context, Grid(dim3(tiles(static_cast<std::int64_t>(g.C) * g.KH * g.KW), tiles(g.O), layers), threads),
           grad_weight_kernel<T>, partials, static_cast<const T*>(arrays.y), static_cast<const T*>(arrays.x),
           static_cast<int>(slices), g);
  });
  sum_slices(context, static_cast<T*>(arrays.weight), static_cast<T*>(arrays.bias), partials, slices, problem.weights(),
             problem.O);
}

bool fits(const Problem& problem) { return !problem.channels_last(); }

/// The one for the problem's element type.
template <auto in_float, auto in_double>
void by_element(Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace) {
  const auto run = problem.element == Element::float64 ? in_double : in_float;
  run(context, problem, arrays, plan, workspace);
}

}  // namespace

const Algorithm general_forward{"general", fits, nullptr, by_element<run_forward<float>, run_forward<double>>};
const Algorithm general_grad_x{"general", fits, nullptr, by_element<run_grad_x<float>, run_grad_x<double>>};
const Algorithm general_grad_weight{"general", fits, workspace_of,
                                    by_element<run_grad_weight<float>, run_grad_weight<double>>};

}  // namespace tern::cuda::convolution
