#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/weights.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elements.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda::convolution {
namespace {

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

// Few channels and a stride, as in a first layer: whole blocks of the stride become channels. Patches that do not
// overlap become single positions.
bool uses_space_to_depth(const Problem& requested) {
  const std::int64_t block = requested.stride_h;
  const bool patches = requested.KH == block && requested.KW == block && requested.pad_h == 0 && requested.pad_w == 0;
  return requested.C <= 4 && requested.groups == 1 && requested.stride_w == block && block > 1 &&
         (block <= 4 || patches) && requested.dilation_h == 1 && requested.dilation_w == 1;
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

// ---- a pass around an engine ----

namespace {

struct Clip {
  Activation activation;
  __device__ float operator()(float value) const { return clip(value, activation); }
};

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
  const bool packs_image = requested_.pass != Pass::grad_x && !task_.takes_image;
  if (packs_image && packed.by_groups)
    copy(context, Side::x, false);
  else if (packs_image)
    with_element(packed, image_, own_.x,
                 [&](auto* image, const auto* own) { pack_image(context, image, own, requested_, packed); });
  if (requested_.pass != Pass::forward && !task_.takes_y) copy(context, Side::y, false);
  if (requested_.pass == Pass::grad_weight || task_.takes_weight) return;
  const auto pack = [requested = requested_, task = task_, own = own_.weight](const Context& where, void* to) {
    pack_weight(where, to, own, requested, task);
  };
  const auto bytes = static_cast<std::size_t>(packed.weights() * bytes_of(packed.element));
  void* made = requested_.pass == Pass::forward ? made_once(context, bytes, pack) : nullptr;
  if (made == nullptr) made = ahead_.make(context, bytes, pack);
  if (made == nullptr) return pack(context, weight_);
  engine_.weight = made;
}

void Packed::copy(const Context& context, Side side, bool to_caller) const {
  const bool x = side == Side::x;
  const std::int64_t groups = task_.packed.by_groups ? requested_.groups : 1;
  const std::int64_t channels = (x ? requested_.C : requested_.O) / groups;
  const std::int64_t positions = x ? requested_.N * requested_.H * requested_.W : requested_.positions();
  // Only the y that a forward pass writes may have gaps.
  const std::int64_t pitch = x ? requested_.C : requested_.pass == Pass::forward ? requested_.y_channels : requested_.O;
  kernels::Strided copy;
  copy.rank = 3;
  copy.count = groups * positions * channels;
  copy.size[0] = groups, copy.size[1] = positions, copy.size[2] = channels;
  std::int64_t(&own)[kernels::max_rank] = to_caller ? copy.out : copy.in;
  std::int64_t(&dense)[kernels::max_rank] = to_caller ? copy.in : copy.out;
  own[0] = channels, own[1] = pitch, own[2] = 1;
  dense[0] = positions * channels, dense[1] = channels, dense[2] = 1;
  void *const caller = x ? own_.x : own_.y, *const engine = x ? image_ : y_;
  Context where = context;
  movement().copy(where, to_caller ? caller : engine, to_caller ? engine : caller, copy,
                  static_cast<std::size_t>(bytes_of(requested_.stored)));
}

void Packed::after(const Context& context) const {
  const Problem& packed = task_.packed;
  const bool unpacks_image = requested_.pass == Pass::grad_x && !task_.takes_image;
  if (unpacks_image && packed.by_groups)
    copy(context, Side::x, true);
  else if (unpacks_image)
    with_element(packed, image_, own_.x,
                 [&](const auto* image, auto* own) { unpack_image(context, own, image, requested_, packed); });
  if (requested_.pass == Pass::grad_weight && !task_.takes_weight)
    unpack_weight(context, own_.weight, weight_, requested_, packed);
  const bool copies_y = requested_.pass == Pass::forward && !task_.takes_y && (packed.epilogue || packed.by_groups);
  if (copies_y) copy(context, Side::y, true);
  if (requested_.pass == Pass::forward && packed.epilogue && packed.activation != requested_.activation)
    return with_element(packed, y_, own_.y, [&]<class Own>(Own*, auto* own) {
      if constexpr (is_half<Own>) map(context, requested_.outputs(), Clip{requested_.activation}, own, own);
    });
  const bool needs_epilogue = !task_.takes_y || own_.bias != nullptr || requested_.activation != Activation::none;
  if (requested_.pass != Pass::forward || packed.epilogue || copies_y || !needs_epilogue) return;
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
