// Batch normalisation of channels last, row by row. Statistics: each block of rows is read twice, from memory for its
// means and from the cache for the deviations from them; blocks are combined in double (Chan, Golub and LeVeque, 1979).

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/batch_norm_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "core/built.hpp"
#include "vectorized/batch_norm_ops.hpp"
#include "vectorized/batch_norm_rows.hpp"
#include "vectorized/clip.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::BatchNorm;

constexpr double streamed = 0.3;      // rough cost of reading one element in nanoseconds
constexpr std::int64_t chunk = 64;    // numbers of channels are padded to a multiple of this
constexpr std::int64_t together = 4;  // rows that share the loads per channel

/// How the rows are cut.
struct Blocks {
  std::int64_t rows, each, count, pitch;

  template <class T>
  static Blocks of(const BatchNorm& p) {
    constexpr std::int64_t bytes = 128 << 10;
    const std::int64_t fitting = bytes / static_cast<std::int64_t>(sizeof(T)) / std::max<std::int64_t>(p.C, 1);
    const std::int64_t each = std::clamp<std::int64_t>(fitting / together * together, 16, 256);
    return {p.N, each, (p.N + each - 1) / each, (p.C + chunk - 1) / chunk * chunk};
  }
  std::int64_t rows_of(std::int64_t block) const { return std::min(each, rows - block * each); }
};

/// totals[k] [pitch] += term k of term(values of in...), summed over the rows; at(d, c) makes the term of the channels
/// from c on.
template <int sums, class T, class Terms, class... In>
HWY_INLINE void add_rows(T* totals, std::int64_t pitch, std::int64_t rows, std::int64_t channels, const Terms& terms,
                         const In*... in) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < rows; row += together) {
    const std::int64_t begin = row * channels;
    for (std::int64_t c = 0; c < channels; c += lanes) {
      const std::int64_t count = channels - c;
      const auto term = terms.at(d, c);
      V found[together][sums];
      if (row + together <= rows) {
        for (std::int64_t i = 0; i < together; ++i)
          term(d, found[i], load_columns(d, in + begin + i * channels + c, count)...);
      } else {
        for (std::int64_t i = 0; i < together; ++i) {
          if (row + i < rows)
            term(d, found[i], load_columns(d, in + begin + i * channels + c, count)...);
          else
            for (V& value : found[i]) value = hn::Zero(d);
        }
      }
      for (int k = 0; k < sums; ++k) {
        T* const total = totals + k * pitch + c;
        const V four = hn::Add(hn::Add(found[0][k], found[1][k]), hn::Add(found[2][k], found[3][k]));
        hn::StoreU(hn::Add(hn::LoadU(d, total), four), d, total);
      }
    }
  }
}

struct ValueTerms {
  template <class D>
  HWY_INLINE ValueTerms at(D /*d*/, std::int64_t /*c*/) const {
    return *this;
  }
  template <class D, class V>
  HWY_INLINE void operator()(D /*d*/, V (&terms)[1], V x) const {
    terms[0] = x;
  }
};

template <class V>
struct DeviationTerm {
  V mean;
  template <class D>
  HWY_INLINE void operator()(D /*d*/, V (&terms)[2], V x) const {
    terms[0] = hn::Sub(x, mean);
    terms[1] = hn::Mul(terms[0], terms[0]);
  }
};
template <class T>
struct DeviationTerms {
  const T* means;
  template <class D>
  HWY_INLINE DeviationTerm<hn::Vec<D>> at(D d, std::int64_t c) const {
    return {hn::LoadU(d, means + c)};
  }
};

template <class V>
struct GradientTerm {
  GradientTimesNormalized<V> times;
  ThroughClip clip;
  template <class D>
  HWY_INLINE void operator()(D d, V (&terms)[2], V grad_y, V x) const {
    terms[0] = grad_y;
    terms[1] = times(d, grad_y, x);
  }
  template <class D>
  HWY_INLINE void operator()(D d, V (&terms)[2], V grad_y, V x, V y) const {
    (*this)(d, terms, clip(d, grad_y, y), x);
  }
};
template <class T>
struct GradientTerms {
  const T *means, *inverses;
  std::int64_t channels;
  ThroughClip clip;
  template <class D>
  HWY_INLINE GradientTerm<hn::Vec<D>> at(D d, std::int64_t c) const {
    return {{load_columns(d, means + c, channels - c), load_columns(d, inverses + c, channels - c)}, clip};
  }
};

/// y of rows [begin, end). `numbers` are the mean, the inverse deviation, the weight and the shift of each channel,
/// [4, pitch].
template <class Arrays, class T>
HWY_NOINLINE void normalize_rows(const Arrays& arrays, const BatchNorm& p, const T* numbers, std::int64_t pitch,
                                 std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  T* const y = arrays.y;
  const T *const x = arrays.x, *const added = arrays.added;
  const bool clipped = clips(p.activation);
  const Clip<T> clip{top_of<T>(p.activation)};
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t first = begin; first < end; first += together) {
    const std::int64_t last = std::min(first + together, end);
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const std::int64_t count = p.C - c;
      const Normalize<V> normalize{hn::LoadU(d, numbers + c), hn::LoadU(d, numbers + pitch + c),
                                   hn::LoadU(d, numbers + 2 * pitch + c), hn::LoadU(d, numbers + 3 * pitch + c)};
      for (std::int64_t at = first * p.C + c; at < last * p.C; at += p.C) {
        V value = normalize(d, load_columns(d, x + at, count));
        if (added != nullptr) value = hn::Add(value, load_columns(d, added + at, count));
        store_columns(clipped ? clip(d, value) : value, d, y + at, count);
      }
    }
  }
}

ThroughClip clip_of(const BatchNorm& p) { return {p.activation == kernels::Activation::relu6}; }

/// grad_x and grad_added (either may be null) of rows [begin, end). `numbers` are the members of NormalizeGradient for
/// each channel, [6, pitch].
template <class T>
HWY_NOINLINE void differentiate_rows(const BatchNormGradients<T>& arrays, const BatchNorm& p, const T* numbers,
                                     std::int64_t pitch, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  T *const grad_x = arrays.grad_x, *const grad_added = arrays.grad_added;
  const T *const grad_y = arrays.grad_y, *const x = arrays.x;
  const T* const y = clips(p.activation) ? arrays.y : nullptr;
  const ThroughClip clip = clip_of(p);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t first = begin; first < end; first += together) {
    const std::int64_t last = std::min(first + together, end);
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const std::int64_t count = p.C - c;
      const T* const own = numbers + c;
      const NormalizeGradient<V> gradient{hn::LoadU(d, own),
                                          hn::LoadU(d, own + pitch),
                                          hn::LoadU(d, own + 2 * pitch),
                                          hn::LoadU(d, own + 3 * pitch),
                                          hn::LoadU(d, own + 4 * pitch),
                                          hn::LoadU(d, own + 5 * pitch)};
      for (std::int64_t at = first * p.C + c; at < last * p.C; at += p.C) {
        V grad = load_columns(d, grad_y + at, count);
        if (y != nullptr) grad = clip(d, grad, load_columns(d, y + at, count));
        const V of_x = gradient(d, grad, load_columns(d, x + at, count));
        if (grad_added != nullptr) store_columns(grad, d, grad_added + at, count);
        if (grad_x != nullptr) store_columns(of_x, d, grad_x + at, count);
      }
    }
  }
}

template <class T>
struct Forward {
  const BatchNormArrays<T>& arrays;
  const BatchNorm& p;
  Blocks blocks;
  T *numbers, *partial;  // as normalize_rows takes them; means, deviations and squares of each block, [count, 3, pitch]

  /// The statistics of a block.
  HWY_NOINLINE void sum(std::int64_t block) const {
    const std::int64_t pitch = blocks.pitch, rows = blocks.rows_of(block);
    T* const means = partial + block * 3 * pitch;
    const T* const in = arrays.x + block * blocks.each * p.C;
    std::fill_n(means, 3 * pitch, T(0));
    add_rows<1>(means, pitch, rows, p.C, ValueTerms{}, in);
    for (std::int64_t c = 0; c < p.C; ++c) means[c] /= static_cast<T>(rows);
    add_rows<2>(means + pitch, pitch, rows, p.C, DeviationTerms<T>{means}, in);
  }
  /// The statistics of the channels of a chunk.
  HWY_NOINLINE void combine(std::int64_t first) const {
    const std::int64_t pitch = blocks.pitch;
    const auto elements = static_cast<double>(p.N);
    double means[chunk] = {}, squares[chunk] = {};
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const T* const own = partial + block * 3 * pitch + first;
      const auto rows = static_cast<double>(blocks.rows_of(block));
      for (std::int64_t i = 0; i < chunk; ++i) means[i] += rows * double{own[i]} + double{own[pitch + i]};
    }
    for (double& value : means) value /= elements;
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const T* const own = partial + block * 3 * pitch + first;
      const auto rows = static_cast<double>(blocks.rows_of(block));
      for (std::int64_t i = 0; i < chunk; ++i) {
        const double off = double{own[i]} - means[i];
        squares[i] += double{own[2 * pitch + i]} + off * (2 * double{own[pitch + i]} + rows * off);
      }
    }
    for (std::int64_t i = 0; i < std::min(chunk, p.C - first); ++i)
      store(first + i, {means[i], std::max(squares[i] / elements, 0.0), p.epsilon});
  }
  void store(std::int64_t c, Statistics<T> found) const {
    if (!std::isfinite(found.variance) || !std::isfinite(found.mean)) found = exact_statistics(arrays.x, p, c);
    arrays.mean[c] = found.mean;
    arrays.inverse_deviation[c] = found.inverse_deviation;
    const T of_channel[]{found.mean, found.inverse_deviation, arrays.weight == nullptr ? T(1) : arrays.weight[c],
                         arrays.bias == nullptr ? T(0) : arrays.bias[c]};
    for (int k = 0; k < 4; ++k) numbers[k * blocks.pitch + c] = of_channel[k];
    if (arrays.running_mean == nullptr || p.N == 0) return;  // an empty batch does not change them
    const auto elements = static_cast<double>(p.N);
    const T unbiased = found.variance * static_cast<T>(elements > 1 ? elements / (elements - 1) : 1);
    const T keep = static_cast<T>(1 - p.momentum), take = static_cast<T>(p.momentum);
    arrays.running_mean[c] = keep * arrays.running_mean[c] + take * found.mean;
    arrays.running_var[c] = keep * arrays.running_var[c] + take * unbiased;
  }
  void write(std::int64_t begin, std::int64_t end) const {
    normalize_rows(arrays, p, numbers, blocks.pitch, begin, end);
  }
};

template <class T>
struct Backward {
  const BatchNormGradients<T>& arrays;
  const BatchNorm& p;
  Blocks blocks;
  T *numbers, *partial;  // as differentiate_rows takes them; sums of gradients and products, [count, 2, pitch]

  HWY_NOINLINE void sum(std::int64_t block) const {
    const std::int64_t pitch = blocks.pitch, rows = blocks.rows_of(block), at = block * blocks.each * p.C;
    T* const sums = partial + block * 2 * pitch;
    std::fill_n(sums, 2 * pitch, T(0));
    const GradientTerms<T> terms{arrays.mean, arrays.inverse_deviation, p.C, clip_of(p)};
    if (clips(p.activation))
      add_rows<2>(sums, pitch, rows, p.C, terms, arrays.grad_y + at, arrays.x + at, arrays.y + at);
    else
      add_rows<2>(sums, pitch, rows, p.C, terms, arrays.grad_y + at, arrays.x + at);
  }
  HWY_NOINLINE void combine(std::int64_t first) const {
    const std::int64_t pitch = blocks.pitch;
    double sums[chunk] = {}, products[chunk] = {};
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const T* const own = partial + block * 2 * pitch + first;
      for (std::int64_t i = 0; i < chunk; ++i) {
        sums[i] += double{own[i]};
        products[i] += double{own[pitch + i]};
      }
    }
    for (std::int64_t i = 0; i < std::min(chunk, p.C - first); ++i) store(first + i, sums[i], products[i]);
  }
  void store(std::int64_t c, double sum, double product) const {
    if (arrays.grad_weight != nullptr) arrays.grad_weight[c] = static_cast<T>(product);
    if (arrays.grad_bias != nullptr) arrays.grad_bias[c] = static_cast<T>(sum);
    // Two factors on the same side of 1 are multiplied one after the other: their product may leave T's range.
    const T inverse = arrays.inverse_deviation[c], factor = arrays.weight == nullptr ? T(1) : arrays.weight[c];
    const bool apart = (inverse > 1) != (std::abs(factor) > 1);
    const auto count = static_cast<double>(p.N);
    const T of_channel[]{arrays.mean[c],
                         inverse,
                         static_cast<T>(sum / count),
                         static_cast<T>(product / count),
                         apart ? inverse * factor : inverse,
                         apart ? T(1) : factor};
    for (int k = 0; k < 6; ++k) numbers[k * blocks.pitch + c] = of_channel[k];
  }
  void write(std::int64_t begin, std::int64_t end) const {
    if (arrays.grad_x == nullptr && arrays.grad_added == nullptr) return;
    differentiate_rows(arrays, p, numbers, blocks.pitch, begin, end);
  }
};

/// Blocks, then channels, then rows.
template <class Pass>
void run(Context& context, const Pass& pass, double nanoseconds) {
  const BatchNorm& p = pass.p;
  const double work = nanoseconds * static_cast<double>(p.N) * static_cast<double>(p.C);
  parallel_phases(useful_threads(context, work), 3, [&](const Team& team, int phase) {
    if (phase == 0)
      for (std::int64_t b = team.begin(pass.blocks.count), end = team.end(pass.blocks.count); b < end; ++b) pass.sum(b);
    else if (phase == 1)
      for (std::int64_t c = team.begin(p.C, chunk), end = team.end(p.C, chunk); c < end; c += chunk) pass.combine(c);
    else
      pass.write(team.begin(p.N, together), team.end(p.N, together));
  });
}

/// Scratch for numbers and partial sums; the padding of the numbers is 0.
template <class T>
struct Space {
  Scratch scratch;
  T *numbers, *partial;
  Space(Context& context, std::int64_t numbers_count, std::int64_t partial_count)
      : scratch(context, static_cast<std::size_t>(numbers_count + partial_count) * sizeof(T)),
        numbers(scratch.as<T>()),
        partial(numbers + numbers_count) {
    std::fill_n(numbers, numbers_count, T(0));
  }
};

template <class T>
void forward(Context& context, const BatchNormArrays<T>& arrays, const BatchNorm& p) {
  const Blocks blocks = Blocks::of<T>(p);
  const Space<T> space(context, 4 * blocks.pitch, 3 * blocks.pitch * blocks.count);
  run(context, Forward<T>{arrays, p, blocks, space.numbers, space.partial}, 3 * streamed);
}

template <class T>
void backward(Context& context, const BatchNormGradients<T>& arrays, const BatchNorm& p) {
  const Blocks blocks = Blocks::of<T>(p);
  const Space<T> space(context, 6 * blocks.pitch, 2 * blocks.pitch * blocks.count);
  run(context, Backward<T>{arrays, p, blocks, space.numbers, space.partial}, 4 * streamed);
}

template <class T>
void inference(Context& context, const BatchNormInference<T>& arrays, const BatchNorm& p) {
  const std::int64_t pitch = Blocks::of<T>(p).pitch;
  const Space<T> space(context, 4 * pitch, 0);
  T* const numbers = space.numbers;
  for (std::int64_t c = 0; c < p.C; ++c) {
    numbers[c] = arrays.running_mean[c];
    numbers[pitch + c] = 1 / std::sqrt(arrays.running_var[c] + static_cast<T>(p.epsilon));
    numbers[2 * pitch + c] = arrays.weight == nullptr ? T(1) : arrays.weight[c];
    numbers[3 * pitch + c] = arrays.bias == nullptr ? T(0) : arrays.bias[c];
  }
  parallel_for(context, p.N, streamed * static_cast<double>(p.C),
               [&](std::int64_t begin, std::int64_t end) { normalize_rows(arrays, p, numbers, pitch, begin, end); });
}

template <class T>
const BatchNormRowKernels<T>& table() {
  static constexpr BatchNormRowKernels<T> table{
      .forward = forward<T>, .backward = built::whole ? backward<T> : nullptr, .inference = inference<T>};
  return table;
}

const BatchNormRowKernels<float>& table_float() { return table<float>(); }
const BatchNormRowKernels<double>& table_double() { return table<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(batch_norm_rows, table)

}  // namespace tern::vectorized
#endif
