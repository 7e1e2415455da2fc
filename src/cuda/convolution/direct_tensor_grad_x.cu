#include "cuda/convolution/direct_tensor.cuh"

namespace tern::cuda::convolution {
namespace {

/// The layout of y's gradient in shared memory: consecutive patches of 8 by 8, with zeros where there is none.
struct Patches {
  int down, across, count;                      // count: of an image
  int stride;                                   // floats from one output channel to the next
  Divisor<std::uint32_t> of_channel, of_width;  // division by the elements of a channel, and by adjacent patches
  Divisor<std::uint32_t> of_depth;              // division by the channels of an image, padding included
};

/// One block: the gradient of some channels of some images.
template <int K, bool Doubles>
struct GradXBlock {
  using Cores = TensorCores<Doubles, false>;
  static constexpr int pairs = products_of(K) / 2, stride = product_stride(K);
  const TensorSizes& s;
  const GradXCut& cut;
  const Patches& patches;
  int depth, image_first, images, c_first, channels;
  float *weights, *staged_g, *products;  // in shared memory

  __device__ __forceinline__ GradXBlock(const TensorSizes& sizes, const GradXCut& its_cut, const Patches& its_patches,
                                        float* shared)
      : s(sizes),
        cut(its_cut),
        patches(its_patches),
        depth((sizes.O + 7) / 8 * 8),
        image_first(static_cast<int>(blockIdx.x) * its_cut.images),
        images(min(its_cut.images, sizes.N - image_first)),
        c_first(static_cast<int>(blockIdx.y) * its_cut.channels),
        channels(min(its_cut.channels, sizes.C - c_first)),
        weights(shared),
        staged_g(weights + depth * its_cut.w_pitch),
        products(staged_g + its_cut.images * depth * its_patches.stride) {}
  __device__ __forceinline__ int image_size() const { return depth * patches.stride; }

  /// Beyond the output channels both the weights and the gradient are 0.
  __device__ __forceinline__ void stage_weights(const float* __restrict__ weight) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x), lane = thread % 32;
    const int of_output = channels * K * K;
    const bool packs = of_output % 4 == 0 && s.length % 4 == 0 && c_first * K * K % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(weight) % 16 == 0;
    for (int o = thread / 32; o < depth; o += threads / 32) {
      float* const there = weights + o * cut.w_pitch;
      const float* const here = weight + (o < s.O ? o * s.length + c_first * K * K : 0);
      if (packs)
        for (int i = lane * 4; i < of_output; i += 128) copy_async<4>(there + i, here + i, o < s.O);
      else
        for (int i = lane; i < of_output; i += 32) copy_async<1>(there + i, here + i, o < s.O);
    }
  }

  /// Where element i of an image's part of y's gradient is: its channel, its place there among the patches, and where
  /// its patch begins.
  __device__ __forceinline__ void locate(int i, int& o, int& rest, int& oh, int& ow) const {
    patches.of_channel.split(i, o, rest);
    patches.of_width.split(rest / patch_area, oh, ow);
    oh *= patch, ow *= patch;
  }
  __device__ __forceinline__ void stage_gradient(const float* __restrict__ g) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const std::int64_t o_before = static_cast<std::int64_t>(image_first) * s.O;
    const bool rows_of_packs = s.OW % 4 == 0 && reinterpret_cast<std::uintptr_t>(g) % 16 == 0;
    const int step = rows_of_packs ? 4 : 1;
    for (int image = 0; image < images; ++image) {
      const float* const from = g + (o_before + image * s.O) * s.area;
      for (int i = thread * step; i < depth * patches.count * patch_area; i += threads * step) {
        int o, rest, oh, ow;
        locate(i, o, rest, oh, ow);
        oh += rest % patch_area / patch, ow += rest % patch;
        const bool inside = o < s.O && oh < s.OH && ow < s.OW;
        float* const there = staged_g + image * image_size() + o * patches.stride + rest;
        const float* const here = from + (inside ? o * s.area + oh * s.OW + ow : 0);
        if (rows_of_packs)
          copy_async<4>(there, here, inside);
        else
          copy_async<1>(there, here, inside);
      }
    }
  }
  /// The same from the gradient of the maxima of windows of 2 x 2. The channels of all images are consecutive, four
  /// elements to a window.
  __device__ __forceinline__ void stage_windows(const float* __restrict__ g,
                                                const std::uint8_t* __restrict__ index) const {
    const std::int64_t before = static_cast<std::int64_t>(image_first) * s.O * (s.area / 4);
    with_windows_beside(g + before, index + before, s, [&](auto beside) {
      constexpr int elements = 4 * decltype(beside)::value;
      const int count = images * depth * patches.count * patch_area / elements;
      spread_windows<decltype(beside)::value>(
          g + before, index + before, count, patch, [&](int i, int& at, float*& there) {
            int channel, image, o, rest, oh, ow;
            locate(elements * i, channel, rest, oh, ow);
            patches.of_depth.split(channel, image, o);
            const int window = rest % patch_area / 4, down = window / 4 * 2, across = window % 4 * 2;
            oh += down, ow += across;
            if (o < s.O && oh < s.OH && ow < s.OW) at = ((image * s.O + o) * s.area + oh * s.OW) / 4 + ow / 2;
            there = staged_g + channel * patches.stride + rest / patch_area * patch_area + down * patch + across;
          });
    });
  }

  /// Products of each patch with 8 columns of the weights at a time, a warp each.
  __device__ __forceinline__ void multiply(const Divisor<std::uint32_t>& of_columns) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int lane = thread % 32, row = lane / 4, t = lane % 4, columns = channels * K;
    const int column_tiles = static_cast<int>(of_columns.value()), of_patches = images * patches.count;
    for (int unit = thread / 32; unit < of_patches * column_tiles; unit += threads / 32) {
      int piece, tile;
      of_columns.split(unit, piece, tile);
      const int image = piece / patches.count;
      // A lane's row of a multiplication is its column of the patch.
      const float* const from = staged_g + image * image_size() + (piece - image * patches.count) * patch_area + row;
      const int column = min(tile * 8 + row, columns - 1);
      const float* const right = weights + column / K * (K * K) + column % K;
      typename Cores::Sum sum[pairs][4] = {};
#pragma unroll 1
      for (int k = 0; k < depth; k += 8) add_step(sum, from + (k + t) * patches.stride, right + (k + t) * cut.w_pitch);
      float* const to = products + (piece * column_tiles * 8 + tile * 8) * stride;
#pragma unroll
      for (int j = 0; j < pairs; ++j)
#pragma unroll
        for (int part = 0; part < 4; ++part)
          to[(2 * t + part % 2) * stride + (2 * j + part / 2) * patch + row] = static_cast<float>(sum[j][part]);
    }
  }
  /// Rows 2 j and 2 j + 1 of the products come from a pair of the patch's rows that begins at 2 j - kh: for even kh
  /// from other pairs than for odd ones.
  __device__ __forceinline__ void add_step(typename Cores::Sum (&sum)[pairs][4], const float* left,
                                           const float* taps) const {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      typename Cores::Element a[patch / 2 + 1][4];
#pragma unroll
      for (int i = 0; i < patch / 2 + odd; ++i)
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int at = 2 * i - odd + part % 2;
          const bool exists = at >= 0 && at < patch;
          a[i][part] =
              exists ? Cores::element(left[part / 2 * 4 * patches.stride + at * patch]) : typename Cores::Element{};
        }
#pragma unroll
      for (int kh = odd; kh < K; kh += 2) {
        const typename Cores::Element b[2]{Cores::element(taps[kh * K]),
                                           Cores::element(taps[4 * cut.w_pitch + kh * K])};
#pragma unroll
        for (int i = 0; i < patch / 2 + odd; ++i) multiply_add(sum[i + kh / 2], a[i], b);
      }
    }
  }

  /// A thread sums 8 adjacent elements in a row of x: for each kw the products that fall on them, from this patch and
  /// the previous one.
  __device__ __forceinline__ void add_products(float* grad_x, const Divisor<std::uint32_t>& of_image,
                                               const Divisor<std::uint32_t>& of_row, int column_tiles) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int row_eights = (s.W + s.pad_w + patch - 1) / patch;
    const bool fours = s.W % 4 == 0 && s.pad_w == 0 && reinterpret_cast<std::uintptr_t>(grad_x) % 16 == 0;
    float* const to = grad_x + (static_cast<std::int64_t>(image_first) * s.C + c_first) * s.H * s.W;
    for (int image = 0; image < images; ++image)
      for (int e = thread; e < channels * s.H * row_eights; e += threads) {
        int c, rest, h, eight;
        of_image.split(e, c, rest);
        of_row.split(rest, h, eight);
        const int down = h + s.pad_h;
        // The patches whose products reach this row: one, or two where they overlap.
        const int last = min(down / patch, patches.down - 1), first = max(down - K + 1, 0) / patch;
        float total[patch] = {};
#pragma unroll 1
        for (int i = first; i <= last; ++i) {
          const int piece = image * patches.count + i * patches.across + eight;
          const float* const here = products + (piece * column_tiles * 8 + c * K) * stride + (down - i * patch) * patch;
          add_patches(total, here, here - column_tiles * 8 * stride, eight);
        }
        const int w_first = eight * patch - s.pad_w;
        float* const row_of = to + (static_cast<std::int64_t>(image) * s.C + c) * s.H * s.W + h * s.W + w_first;
        if (fours) {
#pragma unroll
          for (int n = 0; n < patch; n += 4)
            if (w_first + n < s.W)
              *reinterpret_cast<float4*>(row_of + n) = float4{total[n], total[n + 1], total[n + 2], total[n + 3]};
        } else {
#pragma unroll
          for (int n = 0; n < patch; ++n)
            if (w_first + n >= 0 && w_first + n < s.W) row_of[n] = total[n];
        }
      }
  }
  __device__ __forceinline__ void add_patches(float (&total)[patch], const float* here, const float* before,
                                              int eight) const {
#pragma unroll
    for (int kw = 0; kw < K; ++kw) {
      float value[2 * patch];
#pragma unroll
      for (int four = 0; four < 4; ++four) {
        const bool exists = four < 2 ? eight > 0 : eight < patches.across;
        const float* const at = (four < 2 ? before : here) + kw * stride + four % 2 * 4;
        if (four < 2 && four * 4 + 4 + kw <= patch) continue;
        const float4 read = exists ? *reinterpret_cast<const float4*>(at) : float4{0, 0, 0, 0};
        value[four * 4] = read.x, value[four * 4 + 1] = read.y, value[four * 4 + 2] = read.z,
                     value[four * 4 + 3] = read.w;
      }
#pragma unroll
      for (int n = 0; n < patch; ++n) total[n] += value[patch + n - kw];
    }
  }
};

template <int K, bool Doubles>
__global__ void __launch_bounds__(most_units * 32, 1)
    tensor_grad_x_kernel(float* grad_x, const float* __restrict__ g, const std::uint8_t* __restrict__ index,
                         const float* __restrict__ weight, const __grid_constant__ TensorSizes s,
                         const __grid_constant__ GradXCut cut, const __grid_constant__ Patches patches,
                         Divisor<std::uint32_t> of_image, Divisor<std::uint32_t> of_row,
                         Divisor<std::uint32_t> of_columns) {
  extern __shared__ float4 memory[];
  const GradXBlock<K, Doubles> block(s, cut, patches, reinterpret_cast<float*>(memory));
  begin_kernel();
  block.stage_weights(weight);
  if (index == nullptr)
    block.stage_gradient(g);
  else
    block.stage_windows(g, index);
  commit_copies();
  await_copies<0>();
  __syncthreads();
  block.multiply(of_columns);
  __syncthreads();
  block.add_products(grad_x, of_image, of_row, static_cast<int>(of_columns.value()));
}

Patches patches_of(const Problem& p) {
  Patches of{};
  const PatchCounts counts(p);
  of.down = counts.down, of.across = counts.across, of.count = counts.count, of.stride = counts.stride;
  of.of_channel = Divisor<std::uint32_t>(of.count * patch_area), of.of_width = Divisor<std::uint32_t>(of.across);
  of.of_depth = Divisor<std::uint32_t>(padded(p.O, 8));
  return of;
}

GradXCut chosen_cut(const Problem& problem) {
  struct Key;
  return tuning::cut_of<Key>(problem, problem.rule, [&](const tuning::Costs& costs) {
    return find_grad_x_cut(tuning::figures(), costs, problem, problem.tensor_cores());
  });
}

bool fits(const Problem& problem) {
  return small_window(problem) && on_tensor_cores(problem) && chosen_cut(problem).channels > 0;
}
// Multiply-adds are faster if each part of a multiprocessor has only a warp or two of doubles (32 images of LeNet's
// second layer: 10.9 compared with 12.6 microseconds), and if there is so much work that nothing waits (512: 53
// compared with 54 and more).
bool suits_multiply_adds(const Problem& problem) {
  if (problem.tensor_cores() || !direct_grad_x.fits(problem)) return false;
  const std::int64_t units = problem.N * patches_of(problem).count * ceil_div(problem.C * problem.KW, 8);
  const std::int64_t each = units / card().multiprocessors;
  return (each >= 1 && each < 4) || each >= 32;
}
bool fits_first(const Problem& problem) { return fits(problem) && !suits_multiply_adds(problem); }
bool fits_last(const Problem& problem) { return fits(problem) && suits_multiply_adds(problem); }

void run_tensor(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  const GradXCut cut = chosen_cut(problem);
  tuning::took_rule(context, problem.rule);
  const Patches patches = patches_of(problem);
  const std::int64_t column_tiles = ceil_div(cut.channels * problem.KW, 8);
  const std::int64_t row_eights = ceil_div(problem.W + problem.pad_w, patch);
  const std::int64_t units = cut.images * patches.count * column_tiles;
  const auto kernel = problem.tensor_cores()
                          ? (problem.KH == 3 ? tensor_grad_x_kernel<3, false> : tensor_grad_x_kernel<5, false>)
                          : (problem.KH == 3 ? tensor_grad_x_kernel<3, true> : tensor_grad_x_kernel<5, true>);
  const dim3 blocks(static_cast<unsigned>(ceil_div(problem.N, cut.images)),
                    static_cast<unsigned>(ceil_div(problem.C, cut.channels)));
  launch(context, Grid(blocks, static_cast<unsigned>(std::min<std::int64_t>(units, most_units) * 32), cut.shared),
         kernel, static_cast<float*>(arrays.x), static_cast<const float*>(arrays.y), arrays.index,
         static_cast<const float*>(arrays.weight), tensor_sizes(problem), cut, patches,
         Divisor<std::uint32_t>(problem.H * row_eights), Divisor<std::uint32_t>(row_eights),
         Divisor<std::uint32_t>(column_tiles));
}

}  // namespace

const Algorithm direct_tensor_grad_x_first{"direct_tensor", fits_first, nullptr, run_tensor};
const Algorithm direct_tensor_grad_x_last{"direct_tensor", fits_last, nullptr, run_tensor};
const Algorithm direct_tensor_grad_x_pooled{"direct_tensor", fits, nullptr, run_tensor};

}  // namespace tern::cuda::convolution
