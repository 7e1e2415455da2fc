// Convolutions by cuDNN: channels last, with the weights, and where it pays the images, packed for its engines.

#include <map>
#include <mutex>

#include "cuda/conv_packed.cuh"
#include "cuda/conv_plans.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/streams.cuh"
#include "cuda/timing.cuh"

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
  if (shape.groups == 1) packing.channels = round_up(packing.channels, half_width ? lane_channels : lane_channels / 2);
  return packing;
}

ConvProblem problem_of(const Context& context, const Conv2d& shape, const Packing& packing, Half half) {
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

bool aligned(const float* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

/// An array in the element type of the engines: the caller's own where nothing has to change, else scratch.
template <class T>
class Packed {
 public:
  Packed(Context& context, const float* own, std::int64_t count)
      : scratch_(context, own == nullptr ? static_cast<std::size_t>(count) * sizeof(T) : 0),
        data_(own == nullptr ? scratch_.template as<T>() : reinterpret_cast<T*>(const_cast<float*>(own))) {}
  T* data() const { return data_; }

 private:
  Scratch scratch_;
  T* data_;
};

/// The caller's array, or an aligned copy: views may begin anywhere.
class AlignedInput {
 public:
  AlignedInput(Context& context, const float* array, std::int64_t count)
      : copy_(context, aligned(array) ? 0 : static_cast<std::size_t>(count) * sizeof(float)),
        data_(aligned(array) ? array : copy_.as<float>()) {
    if (data_ != array)
      check(cudaMemcpyAsync(copy_.as<void>(), array, static_cast<std::size_t>(count) * sizeof(float),
                            cudaMemcpyDeviceToDevice, stream_of(context)),
            "aligning an array");
  }
  const float* data() const { return data_; }

 private:
  Scratch copy_;
  const float* data_;
};

template <class T>
class LibraryConv {
 public:
  LibraryConv(Context& context, const Conv2d& shape)
      : context_(context), shape_(shape), packing_(packing_of(shape, !is_float)) {}

  void forward(float* y, const float* x, const float* weight, const float* bias) {
    const bool own_image = whole_image() && aligned(x), own_weight = whole_weight() && aligned(weight);
    const Packed<T> image(context_, own_image ? x : nullptr, images());
    const Packed<T> filter(context_, own_weight ? weight : nullptr, weights());
    if (!own_image) pack_image(context_, image.data(), x, shape_, packing_);
    if (!own_weight) pack_weight(context_, filter.data(), weight, shape_, packing_);

    const auto in_two_passes = [&] {
      const Packed<T> out(context_, is_float && !joined() ? y : nullptr, outputs());
      run(problem(Half::forward), image.data(), filter.data(), out.data());
      if (!is_float || joined() || bias != nullptr || shape_.activation != Activation::none)
        finish_rows(context_, y, out.data(), bias, rows(), shape_.activation);
    };
    ConvProblem finished = problem(Half::forward);
    finished.float_out = finished.finished = true;
    finished.y_pitch = rows().pitch;
    finished.relu = shape_.activation == Activation::relu;
    const auto in_one_pass = [&] { run(finished, image.data(), filter.data(), y, bias); };
    const bool possible = bias != nullptr && aligned(bias) && !context_.deterministic &&
                          (finished.relu || shape_.activation == Activation::none);
    if (possible && one_pass_wins(finished, image.data(), filter.data(), y, bias, in_one_pass, in_two_passes))
      in_one_pass();
    else
      in_two_passes();
  }

  void backward(float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y, const float* x,
                const float* weight, const float* y) {
    const bool masked = shape_.activation != Activation::none, own_g = !masked && is_float && !joined();
    const std::int64_t span = rows().count * rows().pitch - (rows().pitch - shape_.O);
    const AlignedInput whole_grad(context_, grad_y, span), whole_y(context_, masked ? y : nullptr, span);
    const Packed<T> g(context_, own_g ? whole_grad.data() : nullptr, outputs());
    const std::int64_t slices = grad_bias == nullptr ? 0 : row_slices(rows());
    const Scratch partials(context_, static_cast<std::size_t>(slices * shape_.O) * sizeof(float));
    if (!own_g || grad_bias != nullptr)
      through_rows(context_, own_g ? nullptr : g.data(), partials.as<float>(), whole_grad.data(), whole_y.data(),
                   rows(), shape_.activation);
    if (grad_bias != nullptr)
      sum_slices<float>(context_, nullptr, grad_bias, partials.as<float>(), slices, 0, shape_.O);
    if (grad_weight == nullptr && grad_x == nullptr) return;

    const bool own_image = whole_image() && aligned(x), own_weight = whole_weight() && aligned(weight);
    const Packed<T> image(context_, own_image ? x : nullptr, grad_weight != nullptr ? images() : 0);
    const Packed<T> filter(context_, own_weight ? weight : nullptr, grad_x != nullptr ? weights() : 0);
    if (grad_weight != nullptr && !own_image) pack_image(context_, image.data(), x, shape_, packing_);
    if (grad_x != nullptr && !own_weight) pack_weight(context_, filter.data(), weight, shape_, packing_);

    const Operands operands{image.data(), filter.data(), g.data()};
    if (grad_x != nullptr && grad_weight != nullptr && recording(context_)) {
      // Independent of each other: in a replayed step they run side by side.
      const Gradient to_x(*this, Half::grad_x, grad_x, operands),
          to_weight(*this, Half::grad_weight, grad_weight, operands);
      const cudaStream_t side = fork(context_);
      to_x.run(side);
      to_weight.run(stream_of(context_));
      join(context_);
      to_x.unpack();
      to_weight.unpack();
      return;
    }
    for (const auto& [half, gradient] : {std::pair{Half::grad_x, grad_x}, {Half::grad_weight, grad_weight}})
      if (gradient != nullptr) {
        const Gradient made(*this, half, gradient, operands);
        made.run(stream_of(context_));
        made.unpack();
      }
  }

 private:
  static constexpr bool is_float = std::is_same_v<T, float>;

  Rows rows() const {
    return {shape_.N * shape_.OH * shape_.OW, shape_.O, shape_.y_channels == 0 ? shape_.O : shape_.y_channels};
  }
  /// Whether y is part of a wider tensor.
  bool joined() const { return rows().pitch != shape_.O; }
  std::int64_t outputs() const { return rows().count * shape_.O; }
  std::int64_t images() const { return shape_.N * packing_.H * packing_.W * packing_.channels; }
  std::int64_t weights() const { return shape_.O * packing_.KH * packing_.KW * (packing_.channels / shape_.groups); }
  /// Whether the packed array has the order of the caller's.
  bool same_image() const { return packing_.block == 1 && packing_.channels == shape_.C; }
  bool same_weight() const { return same_image() && packing_.KH * packing_.KW == 1; }
  /// Whether the engines take the caller's array as it is.
  bool whole_image() const { return is_float && same_image(); }
  bool whole_weight() const { return is_float && same_weight(); }

  /// What the engines work on, packed.
  struct Operands {
    T *image, *weight, *g;
  };

  /// One gradient: computed in its place where the engines can, else packed and then brought there.
  class Gradient {
   public:
    Gradient(LibraryConv& conv, Half half, float* gradient, const Operands& operands)
        : conv_(conv),
          half_(half),
          gradient_(gradient),
          problem_(conv.problem(half)),
          operands_(operands),
          direct_(conv.writes_float(problem_, half, gradient, operands)),
          packed_(conv.context_, direct_ ? gradient : nullptr, half == Half::grad_x ? conv.images() : conv.weights()),
          plan_(conv_plan(conv.context_, problem_, x(), weight(), operands.g)),
          workspace_(conv.context_, plan_.workspace) {}
    void run(cudaStream_t stream) const {
      run_conv(plan_, problem_, stream, workspace_.template as<void>(), x(), weight(), operands_.g);
    }
    void unpack() const {
      if (direct_) return;
      if (half_ == Half::grad_x)
        unpack_image(conv_.context_, gradient_, packed_.data(), conv_.shape_, conv_.packing_);
      else
        unpack_weight(conv_.context_, gradient_, packed_.data(), conv_.shape_, conv_.packing_);
    }

   private:
    T* x() const { return half_ == Half::grad_x ? packed_.data() : operands_.image; }
    T* weight() const { return half_ == Half::grad_weight ? packed_.data() : operands_.weight; }

    LibraryConv& conv_;
    Half half_;
    float* gradient_;
    ConvProblem problem_;
    Operands operands_;
    bool direct_;
    Packed<T> packed_;
    const ConvPlan& plan_;
    Scratch workspace_;
  };

  // Whether the engines may write the gradient in its place; sets problem.float_out when bfloat16 factors meet there.
  bool writes_float(ConvProblem& problem, Half half, float* gradient, const Operands& operands) {
    if (half == Half::grad_x ? !same_image() : !same_weight()) return false;
    if (is_float) return true;
    if (context_.deterministic) return false;
    ConvProblem direct = problem;
    direct.float_out = true;
    void* const x = half == Half::grad_x ? static_cast<void*>(gradient) : operands.image;
    void* const weight = half == Half::grad_weight ? static_cast<void*>(gradient) : operands.weight;
    const auto one = [&] { run(direct, x, weight, operands.g); };
    const auto two = [&] {
      const Packed<T> packed(context_, nullptr, half == Half::grad_x ? images() : weights());
      if (half == Half::grad_x) {
        run(problem, packed.data(), operands.weight, operands.g);
        unpack_image(context_, gradient, packed.data(), shape_, packing_);
      } else {
        run(problem, operands.image, packed.data(), operands.g);
        unpack_weight(context_, gradient, packed.data(), shape_, packing_);
      }
    };
    if (!one_pass_wins(direct, x, weight, operands.g, nullptr, one, two)) return false;
    problem = direct;
    return true;
  }

  // Engines that finish their result (bias and relu, float from bfloat16) exist for some problems and are not always
  // faster.
  template <class One, class Two>
  bool one_pass_wins(const ConvProblem& finished, void* x, void* weight, void* y, const float* bias, const One& one,
                     const Two& two) {
    static std::mutex mutex;
    static auto* decided = new std::map<ConvProblem, bool>;
    {
      const std::scoped_lock lock(mutex);
      const auto found = decided->find(finished);
      if (found != decided->end()) return found->second;
    }
    if (recording(context_)) return false;
    const bool exists = conv_plan(context_, finished, x, weight, y, bias).engine != nullptr;
    const bool wins = exists && microseconds(context_, one, 2, 5) < microseconds(context_, two, 2, 5);
    const std::scoped_lock lock(mutex);
    return decided->try_emplace(finished, wins).first->second;
  }

  ConvProblem problem(Half half) const { return problem_of(context_, shape_, packing_, half); }
  void run(const ConvProblem& asked, void* x, void* weight, void* y, const float* bias = nullptr) {
    const ConvPlan& plan = conv_plan(context_, asked, x, weight, y, bias);
    const Scratch workspace(context_, plan.workspace);
    run_conv(plan, asked, stream_of(context_), workspace.as<void>(), x, weight, y, bias);
  }

  Context& context_;
  const Conv2d& shape_;
  Packing packing_;
};

}  // namespace

bool library_conv2d_fits(const Conv2d& shape) {
  const std::int64_t images = shape.N * shape.OH * shape.OW;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (images == 0 || images >= most || shape.N * (shape.H + 8) * (shape.W + 8) >= most) return false;
  if (shape.y_channels % 4 != 0) return false;
  if (shape.C == 0 || shape.O % lane_channels != 0) return false;
  if (shape.groups == 1) return shape.C <= 4 || shape.C % lane_channels == 0;
  return shape.groups <= most_groups && shape.C / shape.groups % lane_channels == 0 &&
         shape.O / shape.groups % lane_channels == 0;
}

void library_conv2d(Context& context, float* y, const float* x, const float* weight, const float* bias,
                    const Conv2d& shape) {
  if (context.precision == Precision::bf16)
    LibraryConv<bf16>(context, shape).forward(y, x, weight, bias);
  else
    LibraryConv<float>(context, shape).forward(y, x, weight, bias);
}

void library_conv2d_backward(Context& context, float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y,
                             const float* x, const float* weight, const float* y, const Conv2d& shape) {
  if (context.precision == Precision::bf16)
    LibraryConv<bf16>(context, shape).backward(grad_x, grad_weight, grad_bias, grad_y, x, weight, y);
  else
    LibraryConv<float>(context, shape).backward(grad_x, grad_weight, grad_bias, grad_y, x, weight, y);
}

}  // namespace tern::cuda
