// Rows with their own statistics: layer, RMS, group and instance normalisation. Threads divide the rows. Their terms of
// weight and bias are summed in parts that the shape fixes, then over the parts, so that the bits do not depend on the
// threads.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/row_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "core/built.hpp"
#include "vectorized/block_sum.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/row_norm.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::RowNorm;

constexpr double streamed = 0.3;  // rough cost of reading one element in nanoseconds

/// The channels of a row, each of `area` adjacent elements.
std::int64_t channels_of(const RowNorm& p) { return p.length / p.area; }
/// The index into weight and bias of a row's first element.
std::int64_t first_parameter(const RowNorm& p, std::int64_t row) { return row % p.groups * channels_of(p); }

/// `count` adjacent elements of weight or bias; `otherwise` if it is null.
template <class D, class T>
HWY_INLINE hn::Vec<D> parameters_or(D d, const T* values, std::int64_t at, std::int64_t count, T otherwise) {
  return values == nullptr ? hn::Set(d, otherwise) : load_columns(d, values + at, count);
}
template <class T>
T parameter_or(const T* values, std::int64_t at, T otherwise) {
  return values == nullptr ? otherwise : values[at];
}

template <class T>
struct RowNormForward {
  T *y, *mean, *inverse_deviation;
  const T *x, *weight, *bias;
  const RowNorm& p;

  HWY_NOINLINE void operator()(std::int64_t row) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const T *const in = x + row * p.length, count = static_cast<T>(p.length);
    T* const out = y + row * p.length;
    T center = p.centred ? static_cast<T>(block_sum(Same{}, p.length, in)) / count : T(0);
    T variance = static_cast<T>(block_sum(SquareFrom<V>{hn::Set(d, center)}, p.length, in)) / count;
    if (p.centred && center * center > T(1 << 17) * variance) {  // the mean's rounding matters
      const T off = static_cast<T>(block_sum(DeviationFrom<V>{hn::Set(d, center)}, p.length, in)) / count;
      center += off;
      variance = std::max(T(0), variance - off * off);
    }
    T inverse = 1 / std::sqrt(variance + static_cast<T>(p.epsilon));
    if (!std::isfinite(variance)) exact_statistics(in, center, inverse);
    if (mean != nullptr) mean[row] = center;
    inverse_deviation[row] = inverse;

    const V middle = hn::Set(d, center), factor = hn::Set(d, inverse);
    const std::int64_t first = first_parameter(p, row);
    if (p.area == 1) {
      for (std::int64_t i = 0; i < p.length; i += lanes) {
        const std::int64_t left = p.length - i;
        const Normalize<V> normalize{middle, factor, parameters_or(d, weight, first + i, left, T(1)),
                                     parameters_or(d, bias, first + i, left, T(0))};
        store_columns(normalize(d, load_columns(d, in + i, left)), d, out + i, left);
      }
      return;
    }
    for (std::int64_t c = 0; c < channels_of(p); ++c)
      map(Normalize<V>{middle, factor, hn::Set(d, parameter_or(weight, first + c, T(1))),
                       hn::Set(d, parameter_or(bias, first + c, T(0)))},
          out + c * p.area, p.area, in + c * p.area);
  }

  /// For a row whose squares leave T's range: in double.
  HWY_NOINLINE void exact_statistics(const T* in, T& center, T& inverse) const {
    const auto mean_of = [&](const auto& value) {
      double sum = 0;
      for (std::int64_t i = 0; i < p.length; ++i) sum += value(static_cast<double>(in[i]));
      return sum / static_cast<double>(p.length);
    };
    const double exact = p.centred ? mean_of([](double value) { return value; }) : 0;
    const double squares = mean_of([&](double value) { return (value - exact) * (value - exact); });
    center = static_cast<T>(exact);
    inverse = static_cast<T>(1 / std::sqrt(squares + p.epsilon));
  }
};

template <class T>
struct RowNormBackward {
  T* grad_x;
  const T *grad_y, *x, *weight, *mean, *inverse_deviation;
  const RowNorm& p;

  /// The sums over a row of grad_y * weight, and of that times the normalised x.
  struct Sums {
    double gradient = 0, product = 0;
  };

  /// Area 1. Adds each element's terms of weight and bias to `weights` and `biases`, unless null.
  HWY_NOINLINE void elements(std::int64_t row, T* weights, T* biases) const {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const T *const in = x + row * p.length, *const grad = grad_y + row * p.length;
    const std::int64_t first = first_parameter(p, row);
    const auto middle = hn::Set(d, center(row)), inverse = hn::Set(d, inverse_deviation[row]);
    Sums sums;
    for (std::int64_t block = 0; block < p.length; block += sum_block) {
      auto gradients = hn::Zero(d), products = gradients;
      for (std::int64_t i = block, end = std::min(p.length, block + sum_block); i < end; i += lanes) {
        const std::int64_t left = p.length - i, at = first + i;
        const auto g = load_columns(d, grad + i, left);
        auto product = hn::Mul(g, hn::Mul(hn::Sub(load_columns(d, in + i, left), middle), inverse));
        // Beyond the end g is 0, but its factor need not be finite.
        if (left < lanes) product = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(left)), product);
        if (biases != nullptr) store_columns(hn::Add(load_columns(d, biases + at, left), g), d, biases + at, left);
        if (weights != nullptr)
          store_columns(hn::Add(load_columns(d, weights + at, left), product), d, weights + at, left);
        const auto scale = parameters_or(d, weight, at, left, T(1));
        gradients = hn::Add(gradients, hn::Mul(g, scale));
        products = hn::Add(products, hn::Mul(product, scale));
      }
      sums.gradient += hn::GetLane(hn::SumOfLanes(d, gradients));
      sums.product += hn::GetLane(hn::SumOfLanes(d, products));
    }
    if (grad_x != nullptr) write(row, sums);
  }

  /// Larger areas. Writes each channel's terms of weight and bias.
  HWY_NOINLINE void planes(std::int64_t row, T* weights, T* biases) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const auto middle = hn::Set(d, center(row)), inverse = hn::Set(d, inverse_deviation[row]);
    const auto times_normalized = [middle, inverse](auto /*d*/, V g, V value)
                                      HWY_ATTR { return hn::Mul(g, hn::Mul(hn::Sub(value, middle), inverse)); };
    Sums sums;
    for (std::int64_t c = 0; c < channels_of(p); ++c) {
      const std::int64_t at = row * p.length + c * p.area, place = row * channels_of(p) + c;
      const T gradient = static_cast<T>(block_sum(Same{}, p.area, grad_y + at));
      const T product = static_cast<T>(block_sum(times_normalized, p.area, grad_y + at, x + at));
      if (biases != nullptr) biases[place] = gradient;
      if (weights != nullptr) weights[place] = product;
      const double scale = parameter_or(weight, first_parameter(p, row) + c, T(1));
      sums.gradient += scale * gradient;
      sums.product += scale * product;
    }
    if (grad_x != nullptr) write(row, sums);
  }

 private:
  T center(std::int64_t row) const { return mean == nullptr ? T(0) : mean[row]; }

  /// grad_x = inverse * (grad_y * weight - mean of that - normalised x * mean of their products).
  HWY_INLINE void write(std::int64_t row, Sums sums) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto count = static_cast<double>(p.length);
    const T gradient = p.centred ? static_cast<T>(sums.gradient / count) : T(0);
    const T product = static_cast<T>(sums.product / count);
    if (!std::isfinite(gradient) || !std::isfinite(product)) return write_exactly(row);
    const std::int64_t start = row * p.length, first = first_parameter(p, row);
    const V middle = hn::Set(d, center(row)), inverse = hn::Set(d, inverse_deviation[row]);
    const V gradients = hn::Set(d, gradient), products = hn::Set(d, product);
    const auto of = [=](V g, V value, V scale) HWY_ATTR {
      const V normalized = hn::Mul(hn::Sub(value, middle), inverse);
      return hn::Mul(inverse, hn::Sub(hn::Sub(hn::Mul(g, scale), gradients), hn::Mul(normalized, products)));
    };
    for (std::int64_t c = 0, planes = p.area == 1 ? 1 : channels_of(p); c < planes; ++c) {
      const std::int64_t at = start + c * p.area, n = p.area == 1 ? p.length : p.area;
      const V same = hn::Set(d, parameter_or(weight, first + c, T(1)));
      for (std::int64_t i = 0; i < n; i += lanes) {
        const V scale = p.area == 1 ? parameters_or(d, weight, first + i, n - i, T(1)) : same;
        store_columns(of(load_columns(d, grad_y + at + i, n - i), load_columns(d, x + at + i, n - i), scale), d,
                      grad_x + at + i, n - i);
      }
    }
  }

  /// A row whose grad_y * weight leaves T's range: in double.
  HWY_NOINLINE void write_exactly(std::int64_t row) const {
    const double middle = center(row), inverse = inverse_deviation[row];
    const std::int64_t start = row * p.length, first = first_parameter(p, row);
    const auto gradient = [&](std::int64_t i) {
      return double{grad_y[start + i]} * parameter_or(weight, first + i / p.area, T(1));
    };
    const auto normalized = [&](std::int64_t i) { return (x[start + i] - middle) * inverse; };
    Sums mean_of;
    for (std::int64_t i = 0; i < p.length; ++i) {
      if (p.centred) mean_of.gradient += gradient(i) / static_cast<double>(p.length);
      mean_of.product += gradient(i) * normalized(i) / static_cast<double>(p.length);
    }
    for (std::int64_t i = 0; i < p.length; ++i)
      grad_x[start + i] = static_cast<T>(inverse * (gradient(i) - mean_of.gradient - normalized(i) * mean_of.product));
  }
};

template <class T>
void forward(Context& context, T* y, T* mean, T* inverse_deviation, const T* x, const T* weight, const T* bias,
             const RowNorm& p) {
  const RowNormForward<T> normalize{y, mean, inverse_deviation, x, weight, bias, p};
  parallel_for(context, p.rows, 3 * streamed * static_cast<double>(p.length),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) normalize(row);
               });
}

template <class T>
void backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x, const T* weight,
              const T* mean, const T* inverse_deviation, const RowNorm& p) {
  constexpr std::int64_t least_rows = 8, most_parts = 256;
  const RowNormBackward<T> gradients{grad_x, grad_y, x, weight, mean, inverse_deviation, p};
  const std::int64_t samples = p.rows / p.groups, parameters = p.groups * channels_of(p);
  // One row of sums per sample, or for several if they are no shorter than the samples.
  const std::int64_t each = p.area > 1 ? 1 : std::max(least_rows, (samples + most_parts - 1) / most_parts),
                     parts = (samples + each - 1) / each;
  const std::int64_t sums = parts * parameters;
  const std::int64_t wanted = (grad_weight != nullptr ? 1 : 0) + (grad_bias != nullptr ? 1 : 0);
  const Scratch scratch(context, static_cast<std::size_t>(wanted * sums) * sizeof(T));
  T* const weights = grad_weight != nullptr ? scratch.as<T>() : nullptr;
  T* const biases = grad_bias == nullptr ? nullptr : scratch.as<T>() + (wanted - 1) * sums;

  const auto rows_of = [&](const Team& team) {
    if (p.area > 1) {
      for (std::int64_t row = team.begin(p.rows), end = team.end(p.rows); row < end; ++row)
        gradients.planes(row, weights, biases);
      return;
    }
    for (std::int64_t part = team.begin(parts), end = team.end(parts); part < end; ++part) {
      T* const to_weights = weights == nullptr ? nullptr : weights + part * parameters;
      T* const to_biases = biases == nullptr ? nullptr : biases + part * parameters;
      for (T* to : {to_weights, to_biases})
        if (to != nullptr) std::fill_n(to, parameters, T(0));
      const std::int64_t last = std::min(samples, (part + 1) * each) * p.groups;
      for (std::int64_t row = part * each * p.groups; row < last; ++row) gradients.elements(row, to_weights, to_biases);
    }
  };
  const auto columns_of = [&](const Team& team) {
    const std::int64_t begin = team.begin(parameters, 16), count = team.end(parameters, 16) - begin;
    if (count <= 0) return;
    if (weights != nullptr)
      sum_kernels<T>().column_sums(grad_weight + begin, weights + begin, parameters, parts, count);
    if (biases != nullptr) sum_kernels<T>().column_sums(grad_bias + begin, biases + begin, parameters, parts, count);
  };
  const double work = 5 * streamed * static_cast<double>(p.rows) * static_cast<double>(p.length);
  parallel_phases(useful_threads(context, work), wanted > 0 ? 2 : 1,
                  [&](const Team& team, int phase) { phase == 0 ? rows_of(team) : columns_of(team); });
}

template <class T>
const RowNormKernels<T>& table() {
  static constexpr RowNormKernels<T> table{.forward = forward<T>, .backward = built::whole ? backward<T> : nullptr};
  return table;
}

const RowNormKernels<float>& table_float() { return table<float>(); }
const RowNormKernels<double>& table_double() { return table<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(row_norm, table)

}  // namespace tern::vectorized
#endif
