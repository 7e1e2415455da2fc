#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/phases.cuh"
#include "cuda/elements.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda::convolution {
namespace {

// ---- weights ----

/// The source of an element of a packed weight; -1 for the zeros of the padding.
struct WeightPlace {
  Divisor<std::uint32_t> channels, KW, C, block;
  int KH, real_KH, real_KW;
  __device__ std::int64_t operator()(std::uint32_t i) const {
    const auto channel = channels.split(i);
    const auto kw = static_cast<int>(KW.split(i));
    const auto o = static_cast<int>(i) / KH, kh = static_cast<int>(i) % KH;
    std::uint32_t rest = channel;
    const auto c = static_cast<int>(C.split(rest));
    const auto column = static_cast<int>(block.split(rest));
    const int row = static_cast<int>(rest), size = static_cast<int>(block.value());
    const int h = kh * size + row, w = kw * size + column;
    if (row >= size || h >= real_KH || w >= real_KW) return -1;
    return ((static_cast<std::int64_t>(o) * static_cast<int>(C.value()) + c) * real_KH + h) * real_KW + w;
  }
};

// Positions along one side of a space-to-depth block; 1 without space-to-depth.
std::int64_t block_of(const Problem& requested, const Problem& packed) { return requested.stride_h / packed.stride_h; }

WeightPlace weight_place(const Problem& requested, const Problem& packed) {
  return {Divisor<std::uint32_t>(packed.C / requested.groups),
          Divisor<std::uint32_t>(packed.KW),
          Divisor<std::uint32_t>(requested.C / requested.groups),
          Divisor<std::uint32_t>(block_of(requested, packed)),
          static_cast<int>(packed.KH),
          static_cast<int>(requested.KH),
          static_cast<int>(requested.KW)};
}

template <class Out, class In>
__global__ void pack_weight_kernel(Out* out, const In* weight, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t from = place(i);
    convert(out[i], from < 0 ? In{} : weight[from]);
  }
}

template <class Out, class In>
__global__ void unpack_weight_kernel(Out* weight, const In* in, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t to = place(i);
    if (to >= 0) convert(weight[to], in[i]);
  }
}

constexpr int most_taps = 32;  // of a block: one warp each, with 32 channels of a row of the weight

/// [rows, taps, C] from a weight [rows, C, taps], through shared memory.
template <class T>
__global__ void pack_taps_kernel(T* out, const T* weight, int C) {
  __shared__ T tile[32 * most_taps];
  begin_kernel();
  const int taps = static_cast<int>(blockDim.y), tap = static_cast<int>(threadIdx.y),
            lane = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * 32, at = tap * 32 + lane;
  const std::int64_t row = blockIdx.y;
  if (at < min(32, C - first) * taps) tile[at] = weight[(row * C + first) * taps + at];
  __syncthreads();
  if (first + lane < C) out[(row * taps + tap) * C + first + lane] = tile[lane * taps + tap];
}

/// The inverse, of the sum of slices.
__global__ void sum_taps_kernel(float* weight, const float* partials, int slices, int C) {
  __shared__ float tile[32 * most_taps];
  begin_kernel();
  const int taps = static_cast<int>(blockDim.y), tap = static_cast<int>(threadIdx.y),
            lane = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * 32, at = tap * 32 + lane;
  const std::int64_t row = blockIdx.y, step = static_cast<std::int64_t>(gridDim.y) * taps * C;
  if (first + lane < C) {
    const float* const from = partials + (row * taps + tap) * C + first + lane;
    float sum = 0;
#pragma unroll 8
    for (int slice = 0; slice < slices; ++slice) sum += from[slice * step];
    tile[lane * taps + tap] = sum;
  }
  __syncthreads();
  if (at < min(32, C - first) * taps) weight[(row * C + first) * taps + at] = tile[at];
}

bool fits_taps(const Problem& requested, const Problem& packed) {
  const std::int64_t taps = requested.KH * requested.KW;
  return same_image(requested, packed) && taps > 1 && taps <= most_taps && requested.O < 65536;
}
Grid taps_grid(const Problem& requested) {
  return Grid(
      dim3(static_cast<unsigned>(ceil_div(requested.C / requested.groups, 32)), static_cast<unsigned>(requested.O)),
      dim3(32, static_cast<unsigned>(requested.KH * requested.KW)));
}

/// The sizes of a weight, of one group.
struct FlippedPlace {
  Divisor<std::uint32_t> O, KW, KH, C;
  __device__ std::int64_t operator()(std::uint32_t i) const {
    const std::uint32_t o = O.split(i), kw = KW.split(i), kh = KH.split(i), c = C.split(i), group = i;
    const std::int64_t row = static_cast<std::int64_t>(group * O.value() + o) * C.value() + c;
    return (row * KH.value() + (KH.value() - 1 - kh)) * KW.value() + (KW.value() - 1 - kw);
  }
};

template <class Out, class In>
__global__ void flip_weight_kernel(Out* out, const In* weight, std::uint32_t count, FlippedPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads()))
    convert(out[i], weight[place(i)]);
}

/// The same without groups, transposed through shared memory: [C, taps, O] from [O, C, taps], the taps backwards.
constexpr int flip_tile = 32, flip_rows = 8;
template <class Out, class In>
__global__ void __launch_bounds__(flip_tile* flip_rows)
    flip_taps_kernel(Out* out, const In* weight, int O, int columns, Divisor<std::uint32_t> taps) {
  __shared__ In tile[flip_tile][flip_tile + 1];
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) * flip_tile, first_o = static_cast<int>(blockIdx.y) * flip_tile;
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows)
    if (first_o + i < O && first_column + x < columns)
      tile[i][x] = weight[static_cast<std::int64_t>(first_o + i) * columns + first_column + x];
  __syncthreads();
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows) {
    if (first_column + i >= columns || first_o + x >= O) continue;
    int c, tap;
    taps.split(first_column + i, c, tap);
    const int row = c * static_cast<int>(taps.value()) + static_cast<int>(taps.value()) - 1 - tap;
    convert(out[static_cast<std::int64_t>(row) * O + first_o + x], tile[x][i]);
  }
}

/// Where the taps of a weight lie in one ordered by phases: the row of a tap for the first channel, and the rows of a
/// channel.
struct PhaseRows {
  int first[most_phase_taps], of_channel[most_phase_taps];
};

/// Likewise of each group, ordered by phases: [channels of all groups, taps, O] for each.
template <class Out, class In>
__global__ void __launch_bounds__(flip_tile* flip_rows)
    phase_taps_kernel(Out* out, const In* weight, int C, int O, Divisor<std::uint32_t> taps,
                      const __grid_constant__ PhaseRows rows) {
  __shared__ In tile[flip_tile][flip_tile + 1];
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), group = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * flip_tile, first_o = static_cast<int>(blockIdx.y) * flip_tile;
  const int columns = C * static_cast<int>(taps.value());
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows)
    if (first_o + i < O && first_column + x < columns)
      tile[i][x] = weight[(static_cast<std::int64_t>(group) * O + first_o + i) * columns + first_column + x];
  __syncthreads();
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows) {
    if (first_column + i >= columns || first_o + x >= O) continue;
    int c, tap;
    taps.split(first_column + i, c, tap);
    const int row = rows.first[tap] + (group * C + c) * rows.of_channel[tap];
    convert(out[static_cast<std::int64_t>(row) * O + first_o + x], tile[x][i]);
  }
}

// ---- images ----

/// The source of an element of a packed image; -1 for padding.
struct ImagePlace {
  Divisor<std::uint32_t> W, H, C, block;
  int real_H, real_W, before_h, before_w;
  struct Position {
    std::int64_t first_row;
    int h, w;
  };
  __device__ Position position(std::uint32_t index) const {
    std::uint32_t n = index;
    const auto w = static_cast<int>(W.split(n)), h = static_cast<int>(H.split(n));
    const int size = static_cast<int>(block.value());
    return {static_cast<std::int64_t>(n) * real_H, h * size - before_h, w * size - before_w};
  }
  __device__ std::int64_t operator()(const Position& at, std::uint32_t channel) const {
    const auto c = static_cast<int>(C.split(channel)), column = static_cast<int>(block.split(channel));
    const int h = at.h + static_cast<int>(channel), w = at.w + column;
    if (channel >= block.value() || h < 0 || h >= real_H || w < 0 || w >= real_W) return -1;
    return ((at.first_row + h) * real_W + w) * static_cast<int>(C.value()) + c;
  }
};

ImagePlace image_place(const Problem& requested, const Problem& packed) {
  return {Divisor<std::uint32_t>(packed.W),
          Divisor<std::uint32_t>(packed.H),
          Divisor<std::uint32_t>(requested.C),
          Divisor<std::uint32_t>(block_of(requested, packed)),
          static_cast<int>(requested.H),
          static_cast<int>(requested.W),
          static_cast<int>(requested.pad_h - packed.pad_h),
          static_cast<int>(requested.pad_w - packed.pad_w)};
}

// Four channels of a position at a time: packed channels are multiples of four.
template <class Out, class In, class Index>
__global__ void pack_image_kernel(Out* out, const In* x, Index packs, Divisor<Index> packs_per_position,
                                  ImagePlace place) {
  begin_kernel();
  for (auto i = static_cast<Index>(global_thread()); i < packs; i += static_cast<Index>(global_threads())) {
    Index position = i;
    const auto channel = static_cast<std::uint32_t>(packs_per_position.split(position)) * 4;
    const ImagePlace::Position at = place.position(static_cast<std::uint32_t>(position));
    Pack<Out, 4> packed;
#pragma unroll
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      const std::int64_t from = place(at, channel + lane);
      convert(packed.value[lane], from < 0 ? In{} : x[from]);
    }
    store<4>(out + static_cast<std::int64_t>(i) * 4, packed);
  }
}

template <class Out, class In, class Index>
__global__ void unpack_image_kernel(Out* x, const In* in, Index packs, Divisor<Index> packs_per_position,
                                    ImagePlace place) {
  begin_kernel();
  for (auto i = static_cast<Index>(global_thread()); i < packs; i += static_cast<Index>(global_threads())) {
    Index position = i;
    const auto channel = static_cast<std::uint32_t>(packs_per_position.split(position)) * 4;
    const ImagePlace::Position at = place.position(static_cast<std::uint32_t>(position));
    const auto packed = load<4>(in + static_cast<std::int64_t>(i) * 4);
#pragma unroll
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      const std::int64_t to = place(at, channel + lane);
      if (to >= 0) convert(x[to], packed.value[lane]);
    }
  }
}

/// out [O, KH', KW', C' / groups] from weight [O, C / groups, KH, KW], and the inverse for a gradient.
template <class Out, class In>
void pack_weight(const Context& context, Out* out, const In* weight, const Problem& requested, const Problem& packed) {
  if constexpr (std::is_same_v<Out, In>)
    if (fits_taps(requested, packed))
      return launch(context, taps_grid(requested), pack_taps_kernel<Out>, out, weight,
                    static_cast<int>(requested.C / requested.groups));
  const std::int64_t count = packed.weights();
  launch(context, Grid(blocks_for(count), 256), pack_weight_kernel<Out, In>, out, weight,
         static_cast<std::uint32_t>(count), weight_place(requested, packed));
}
template <class Out, class In>
void unpack_weight(const Context& context, Out* weight, const In* in, const Problem& requested, const Problem& packed) {
  const std::int64_t count = packed.weights();
  launch(context, Grid(blocks_for(count), 256), unpack_weight_kernel<Out, In>, weight, in,
         static_cast<std::uint32_t>(count), weight_place(requested, packed));
}

/// out [C, KH, KW, O / groups] from weight [O, C / groups, KH, KW], flipped by 180 degrees.
template <class Out, class In>
void flip_weight(const Context& context, Out* out, const In* weight, const Problem& requested) {
  const std::int64_t count = requested.weights(), columns = requested.C * requested.KH * requested.KW;
  const std::int64_t tiles = ceil_div(requested.O, flip_tile);
  if (requested.groups == 1 && tiles < 65536 && columns < std::int64_t{1} << 31)
    return launch(context,
                  Grid(dim3(static_cast<unsigned>(ceil_div(columns, flip_tile)), static_cast<unsigned>(tiles)),
                       dim3(flip_tile, flip_rows)),
                  flip_taps_kernel<Out, In>, out, weight, static_cast<int>(requested.O), static_cast<int>(columns),
                  Divisor<std::uint32_t>(requested.KH * requested.KW));
  const FlippedPlace place{Divisor<std::uint32_t>(requested.O / requested.groups), Divisor<std::uint32_t>(requested.KW),
                           Divisor<std::uint32_t>(requested.KH),
                           Divisor<std::uint32_t>(requested.C / requested.groups)};
  launch(context, Grid(blocks_for(count), 256), flip_weight_kernel<Out, In>, out, weight,
         static_cast<std::uint32_t>(count), place);
}

/// out ordered by phases from weight [O, C / groups, KH, KW].
template <class Out, class In>
void order_phases(const Context& context, Out* out, const In* weight, const Problem& requested) {
  PhaseRows rows{};
  for (const Phase& phase : phases_of(requested))
    for (std::int64_t i = 0; i < phase.taps(); ++i) {
      const std::int64_t row = i / phase.w.taps, column = i % phase.w.taps;
      const std::int64_t kh = phase.h.tap + (phase.h.taps - 1 - row) * phase.h.step,
                         kw = phase.w.tap + (phase.w.taps - 1 - column) * phase.w.step;
      rows.first[kh * requested.KW + kw] = static_cast<int>(phase.weight + i);
      rows.of_channel[kh * requested.KW + kw] = static_cast<int>(phase.taps());
    }
  const std::int64_t C = requested.C / requested.groups, O = requested.O / requested.groups,
                     taps = requested.KH * requested.KW;
  launch(context,
         Grid(dim3(static_cast<unsigned>(ceil_div(C * taps, flip_tile)), static_cast<unsigned>(ceil_div(O, flip_tile)),
                   static_cast<unsigned>(requested.groups)),
              dim3(flip_tile, flip_rows)),
         phase_taps_kernel<Out, In>, out, weight, static_cast<int>(C), static_cast<int>(O),
         Divisor<std::uint32_t>(taps), rows);
}

/// out [N, H', W', C'] from x [N, H, W, C], and the inverse for a gradient.
template <class Out, class In>
void pack_image(const Context& context, Out* out, const In* x, const Problem& requested, const Problem& packed) {
  const std::int64_t count = packed.images();
  if constexpr (is_half<Out>)
    if (same_image(requested, packed)) return map_packed<4>(context, count, Same{}, out, x);
  with_index(count / 4, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(count / 4), 256), pack_image_kernel<Out, In, Index>, out, x,
           static_cast<Index>(count / 4), Divisor<Index>(packed.C / 4), image_place(requested, packed));
  });
}
template <class Out, class In>
void unpack_image(const Context& context, Out* x, const In* in, const Problem& requested, const Problem& packed) {
  const std::int64_t count = packed.images();
  if constexpr (is_half<In>)
    if (same_image(requested, packed)) return map_packed<4>(context, count, Same{}, x, in);
  // Positions that no window reached are not in the packed image.
  if (block_of(requested, packed) > 1)
    check(cudaMemsetAsync(x, 0, static_cast<std::size_t>(requested.images()) * sizeof(Out), stream_of(context)),
          "clearing");
  with_index(count / 4, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(count / 4), 256), unpack_image_kernel<Out, In, Index>, x, in,
           static_cast<Index>(count / 4), Divisor<Index>(packed.C / 4), image_place(requested, packed));
  });
}

// ---- problems ----

constexpr std::int64_t lane_channels = 8;  // engines with tensor cores need multiples of this

// Few channels and a stride, as in a first layer: whole blocks of the stride become channels.
bool uses_space_to_depth(const Problem& requested) {
  return requested.C <= 4 && requested.groups == 1 && requested.stride_h == requested.stride_w &&
         requested.stride_h > 1 && requested.stride_h <= 4 && requested.dilation_h == 1 && requested.dilation_w == 1;
}

}  // namespace

Problem packed(const Problem& requested, Element element) {
  Problem packed = requested;
  packed.element = element;
  packed.activation = Activation::none;
  packed.inputs = packed.gradients = {};
  packed.packed_weight = false;
  if (element == Element::float32 && requested.precision == Precision::bf16) packed.precision = Precision::tf32;
  const bool to_depth = uses_space_to_depth(requested);
  if (to_depth) {
    const std::int64_t block = requested.stride_h;
    packed.KH = ceil_div(requested.KH, block);
    packed.KW = ceil_div(requested.KW, block);
    packed.H = requested.OH - 1 + packed.KH;
    packed.W = requested.OW - 1 + packed.KW;
    packed.C = requested.C * block * block;
    packed.stride_h = packed.stride_w = 1;
    packed.pad_h = packed.pad_w = 0;
  }
  // A grouped convolution keeps its channels: the check requires whole lanes there.
  const std::int64_t lanes = bytes_of(element) == 2 || to_depth ? lane_channels : lane_channels / 2;
  if (requested.groups == 1) packed.C = ceil_div(packed.C, lanes) * lanes;
  packed.x_channels = packed.C;
  packed.y_channels = packed.O;
  return packed;
}

Problem with_epilogue(const Problem& requested, Element element) {
  Problem fused = packed(requested, element);
  fused.y_channels = requested.y_channels;
  fused.activation = clips_afterwards(requested) ? Activation::none : requested.activation;
  fused.inputs.bias = requested.inputs.bias;
  fused.epilogue = true;
  fused.float_out = requested.stored == Element::float32;
  return fused;
}

bool flips(const Problem& requested, const Problem& packed) {
  return same_image(requested, packed) && requested.stride_h == 1 && requested.stride_w == 1 &&
         requested.pad_h <= requested.dilation_h * (requested.KH - 1) &&
         requested.pad_w <= requested.dilation_w * (requested.KW - 1);
}

Problem flipped(const Problem& packed) {
  Problem flipped = packed;
  flipped.pass = Pass::forward;
  std::swap(flipped.C, flipped.O);
  std::swap(flipped.H, flipped.OH);
  std::swap(flipped.W, flipped.OW);
  std::swap(flipped.x_channels, flipped.y_channels);
  flipped.pad_h = flipped.dilation_h * (flipped.KH - 1) - flipped.pad_h;
  flipped.pad_w = flipped.dilation_w * (flipped.KW - 1) - flipped.pad_w;
  return flipped;
}

bool sums_weight(const Problem& requested, const Problem& packed, std::int64_t slices) {
  constexpr std::int64_t most = 64;  // more slices are added faster by more threads
  return slices <= most && fits_taps(requested, packed);
}

void sum_weight(const Context& context, float* weight, const float* partials, std::int64_t slices,
                const Problem& requested) {
  launch(context, taps_grid(requested), sum_taps_kernel, weight, partials, static_cast<int>(slices),
         static_cast<int>(requested.C / requested.groups));
}

// ---- a pass around an engine ----

namespace {

struct Clip {
  Activation activation;
  __device__ float operator()(float value) const { return clip(value, activation); }
};

/// Calls body(the engine's array, the caller's array) with their element types.
template <class Body>
void with_element(const Problem& packed, void* array, void* own, const Body& body) {
  if (packed.stored == Element::bfloat16) return body(static_cast<BFloat16*>(array), static_cast<BFloat16*>(own));
  if (packed.stored == Element::float16) return body(static_cast<Float16*>(array), static_cast<Float16*>(own));
  if (packed.element == Element::bfloat16) return body(static_cast<bf16*>(array), static_cast<float*>(own));
  body(static_cast<float*>(array), static_cast<float*>(own));
}

}  // namespace

Packed::Packed(const Problem& requested, const Task& task, const Arrays& arrays, void* workspace,
               std::size_t engine_bytes)
    : requested_(requested), task_(task), own_(arrays), parts_(workspace) {
  const auto place = [&](bool taken, void* own, std::int64_t count, bool wide = false) {
    const Element element = wide ? Element::float32 : task.packed.element;
    return taken ? own : parts_.take(static_cast<std::size_t>(count * bytes_of(element)));
  };
  image_ = place(task.takes_image, arrays.x, task.packed.images());
  weight_ = place(task.takes_weight, arrays.weight, task.packed.weights());
  y_ = place(task.takes_y, arrays.y, task.packed.outputs(), requested.pass == Pass::forward && task.packed.float_out);
  workspace_ = parts_.take(engine_bytes);
  engine_ = task.flipped ? Arrays{y_, weight_, image_, arrays.bias} : Arrays{image_, weight_, y_, arrays.bias};
  engine_.added = arrays.added, engine_.after = arrays.after;
}

void Packed::before(const Context& context) {
  const Problem& packed = task_.packed;
  if (requested_.pass != Pass::grad_x && !task_.takes_image)
    with_element(packed, image_, own_.x,
                 [&](auto* image, const auto* own) { pack_image(context, image, own, requested_, packed); });
  if (requested_.pass == Pass::grad_weight || task_.takes_weight) return;
  const auto pack = [requested = requested_, task = task_, own = own_.weight](const Context& where, void* to) {
    with_element(task.packed, to, own, [&](auto* weight, const auto* from) {
      task.by_phases ? order_phases(where, weight, from, requested)
      : task.flipped ? flip_weight(where, weight, from, requested)
                     : pack_weight(where, weight, from, requested, task.packed);
    });
  };
  const auto bytes = static_cast<std::size_t>(packed.weights() * bytes_of(packed.element));
  void* made = requested_.pass == Pass::forward ? made_once(context, bytes, pack) : nullptr;
  if (made == nullptr) made = ahead_.make(context, bytes, pack);
  if (made == nullptr) return pack(context, weight_);
  engine_.weight = made;
}

void Packed::after(const Context& context) const {
  const Problem& packed = task_.packed;
  if (requested_.pass == Pass::grad_x && !task_.takes_image)
    with_element(packed, image_, own_.x,
                 [&](const auto* image, auto* own) { unpack_image(context, own, image, requested_, packed); });
  if (requested_.pass == Pass::grad_weight && !task_.takes_weight)
    with_element(packed, weight_, own_.weight,
                 [&](const auto* weight, auto* own) { unpack_weight(context, own, weight, requested_, packed); });
  if (requested_.pass == Pass::forward && packed.epilogue && packed.activation != requested_.activation)
    return with_element(packed, y_, own_.y, [&]<class Own>(Own*, auto* own) {
      if constexpr (is_half<Own>) map(context, requested_.outputs(), Clip{requested_.activation}, own, own);
    });
  const bool needs_epilogue = !task_.takes_y || own_.bias != nullptr || requested_.activation != Activation::none;
  if (requested_.pass != Pass::forward || packed.epilogue || !needs_epilogue) return;
  with_element(packed, y_, own_.y, [&]<class In, class Own>(const In* y, Own* own) {
    const auto finish = [&](const auto* from) {
      finish_rows(context, own, from, static_cast<const Own*>(own_.bias),
                  Rows{requested_.positions(), requested_.O, requested_.y_channels}, requested_.activation);
    };
    if constexpr (is_half<Own>)
      finish(static_cast<const float*>(y_));
    else
      finish(y);
  });
}

}  // namespace tern::cuda::convolution
