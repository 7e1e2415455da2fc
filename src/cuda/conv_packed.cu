#include "cuda/conv_packed.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda {
namespace {

// ---- weights ----

/// Where an element of a packed weight comes from; -1 for the zeros that fill up.
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

WeightPlace weight_place(const Conv2d& shape, const Packing& packing) {
  return {Divisor<std::uint32_t>(packing.channels / shape.groups),
          Divisor<std::uint32_t>(packing.KW),
          Divisor<std::uint32_t>(shape.C / shape.groups),
          Divisor<std::uint32_t>(packing.block),
          static_cast<int>(packing.KH),
          static_cast<int>(shape.KH),
          static_cast<int>(shape.KW)};
}

template <class Out>
__global__ void pack_weight_kernel(Out* out, const float* weight, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t from = place(i);
    convert(out[i], from < 0 ? 0.0f : weight[from]);
  }
}

template <class In>
__global__ void unpack_weight_kernel(float* weight, const In* in, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t to = place(i);
    if (to >= 0) convert(weight[to], in[i]);
  }
}

/// The sizes of a weight, of one group.
struct TurnedPlace {
  Divisor<std::uint32_t> O, KW, KH, C;
  __device__ std::int64_t operator()(std::uint32_t i) const {
    const std::uint32_t o = O.split(i), kw = KW.split(i), kh = KH.split(i), c = C.split(i), group = i;
    const std::int64_t row = static_cast<std::int64_t>(group * O.value() + o) * C.value() + c;
    return (row * KH.value() + (KH.value() - 1 - kh)) * KW.value() + (KW.value() - 1 - kw);
  }
};

template <class Out>
__global__ void turn_weight_kernel(Out* out, const float* weight, std::uint32_t count, TurnedPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads()))
    convert(out[i], weight[place(i)]);
}

// ---- images ----

/// Where an element of a packed image comes from; -1 for padding.
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

ImagePlace image_place(const Conv2d& shape, const Packing& packing) {
  return {Divisor<std::uint32_t>(packing.W),     Divisor<std::uint32_t>(packing.H), Divisor<std::uint32_t>(shape.C),
          Divisor<std::uint32_t>(packing.block), static_cast<int>(shape.H),         static_cast<int>(shape.W),
          static_cast<int>(packing.before_h),    static_cast<int>(packing.before_w)};
}

// Four channels of a position at a time: packed channels come in multiples of that.
template <class Out, class Index>
__global__ void pack_image_kernel(Out* out, const float* x, Index packs, Divisor<Index> packs_per_position,
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
      convert(packed.value[lane], from < 0 ? 0.0f : x[from]);
    }
    store(out + static_cast<std::int64_t>(i) * 4, packed);
  }
}

template <class In, class Index>
__global__ void unpack_image_kernel(float* x, const In* in, Index packs, Divisor<Index> packs_per_position,
                                    ImagePlace place) {
  begin_kernel();
  for (auto i = static_cast<Index>(global_thread()); i < packs; i += static_cast<Index>(global_threads())) {
    Index position = i;
    const auto channel = static_cast<std::uint32_t>(packs_per_position.split(position)) * 4;
    const ImagePlace::Position at = place.position(static_cast<std::uint32_t>(position));
    const Pack<In, 4> packed = load<4>(in + static_cast<std::int64_t>(i) * 4);
#pragma unroll
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      const std::int64_t to = place(at, channel + lane);
      if (to >= 0) convert(x[to], packed.value[lane]);
    }
  }
}

bool only_converts(const Conv2d& shape, const Packing& packing) {
  return packing.block == 1 && packing.channels == shape.C;
}

struct ToBf16 {
  __device__ bf16 operator()(float value) const { return __float2bfloat16_rn(value); }
};
struct FromBf16 {
  __device__ float operator()(bf16 value) const { return __bfloat162float(value); }
};

}  // namespace

template <class Out>
void pack_weight(const Context& context, Out* out, const float* weight, const Conv2d& shape, const Packing& packing) {
  const std::int64_t count = shape.O * packing.KH * packing.KW * (packing.channels / shape.groups);
  launch(context, Grid(blocks_for(count), 256), pack_weight_kernel<Out>, out, weight, static_cast<std::uint32_t>(count),
         weight_place(shape, packing));
}

template <class In>
void unpack_weight(const Context& context, float* weight, const In* in, const Conv2d& shape, const Packing& packing) {
  const std::int64_t count = shape.O * packing.KH * packing.KW * (packing.channels / shape.groups);
  launch(context, Grid(blocks_for(count), 256), unpack_weight_kernel<In>, weight, in, static_cast<std::uint32_t>(count),
         weight_place(shape, packing));
}

template <class Out>
void turn_weight(const Context& context, Out* out, const float* weight, const Conv2d& shape) {
  const std::int64_t count = shape.O * (shape.C / shape.groups) * shape.KH * shape.KW;
  const TurnedPlace place{Divisor<std::uint32_t>(shape.O / shape.groups), Divisor<std::uint32_t>(shape.KW),
                          Divisor<std::uint32_t>(shape.KH), Divisor<std::uint32_t>(shape.C / shape.groups)};
  launch(context, Grid(blocks_for(count), 256), turn_weight_kernel<Out>, out, weight, static_cast<std::uint32_t>(count),
         place);
}

template <class Out>
void pack_image(const Context& context, Out* out, const float* x, const Conv2d& shape, const Packing& packing) {
  const std::int64_t count = shape.N * packing.H * packing.W * packing.channels;
  if constexpr (std::is_same_v<Out, bf16>)
    if (only_converts(shape, packing)) return map_packed<4>(context, count, ToBf16{}, out, x);
  with_index(count / 4, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(count / 4), 256), pack_image_kernel<Out, Index>, out, x,
           static_cast<Index>(count / 4), Divisor<Index>(packing.channels / 4), image_place(shape, packing));
  });
}

template <class In>
void unpack_image(const Context& context, float* x, const In* in, const Conv2d& shape, const Packing& packing) {
  const std::int64_t count = shape.N * packing.H * packing.W * packing.channels;
  if constexpr (std::is_same_v<In, bf16>)
    if (only_converts(shape, packing)) return map_packed<4>(context, count, FromBf16{}, x, in);
  // Positions that no window reached have no place in the packed image.
  if (packing.block > 1)
    check(cudaMemsetAsync(x, 0, static_cast<std::size_t>(shape.N * shape.C * shape.H * shape.W) * sizeof(float),
                          stream_of(context)),
          "clearing");
  with_index(count / 4, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(count / 4), 256), unpack_image_kernel<In, Index>, x, in,
           static_cast<Index>(count / 4), Divisor<Index>(packing.channels / 4), image_place(shape, packing));
  });
}

template void pack_weight<float>(const Context&, float*, const float*, const Conv2d&, const Packing&);
template void pack_weight<bf16>(const Context&, bf16*, const float*, const Conv2d&, const Packing&);
template void unpack_weight<float>(const Context&, float*, const float*, const Conv2d&, const Packing&);
template void unpack_weight<bf16>(const Context&, float*, const bf16*, const Conv2d&, const Packing&);
template void turn_weight<float>(const Context&, float*, const float*, const Conv2d&);
template void turn_weight<bf16>(const Context&, bf16*, const float*, const Conv2d&);
template void pack_image<float>(const Context&, float*, const float*, const Conv2d&, const Packing&);
template void pack_image<bf16>(const Context&, bf16*, const float*, const Conv2d&, const Packing&);
template void unpack_image<float>(const Context&, float*, const float*, const Conv2d&, const Packing&);
template void unpack_image<bf16>(const Context&, float*, const bf16*, const Conv2d&, const Packing&);

}  // namespace tern::cuda
