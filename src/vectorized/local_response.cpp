// Local response normalisation. Channels first, lanes are positions and windows run over rows; channels last, lanes are
// channels.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/local_response.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "core/built.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/local_response.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::LocalResponseNorm;

constexpr double response_cost = 1;  // of one element in nanoseconds, roughly

// ---- powers --------------------------------------------------------------------------------------------------------

/// 1 / sqrt(x) to about a unit in the last place, for ordinary x: an estimate and Newton steps, which cost a fraction
/// of a root and a division.
template <class D, class V>
HWY_INLINE V inverse_root(D d, V x) {
  V y = hn::ApproximateReciprocalSqrt(x);
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  constexpr int steps = HWY_TARGET <= HWY_AVX3 ? 1 : 2;  // from 14 bits, or from 12
  for (int i = 0; i < steps; ++i) {
    const V error = hn::NegMulAdd(hn::Mul(half, y), y, hn::Set(d, 0.5f));
    y = hn::MulAdd(y, error, y);
  }
  return y;
}

/// base^-beta and 1 / base.
template <class V>
struct ResponsePowers {
  V power, inverse;
};
template <class D, class V>
HWY_INLINE ResponsePowers<V> response_powers(D d, V base, double beta) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  if (beta == 0.75) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 4) {
      const auto ordinary = hn::And(hn::Gt(base, hn::Set(d, 1e-30f)), hn::Lt(base, hn::Set(d, 1e30f)));
      if (hn::AllTrue(d, ordinary)) {
        const V root = inverse_root(d, base);                                               // base^-1/2
        return {hn::Mul(root, hn::Mul(root, inverse_root(d, root))), hn::Mul(root, root)};  // root^2 root^-1/2
      }
    }
#endif
    const V root = hn::Sqrt(base);
    return {hn::Div(one, hn::Mul(root, hn::Sqrt(root))), hn::Div(one, base)};
  }
  if (beta == 0.5) return {hn::Div(one, hn::Sqrt(base)), hn::Div(one, base)};
  if (beta == 1) return {hn::Div(one, base), hn::Div(one, base)};
  HWY_ALIGN T lane[hn::MaxLanes(d)];
  hn::Store(base, d, lane);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = std::pow(lane[i], static_cast<T>(-beta));
  return {hn::Load(d, lane), hn::Div(one, base)};
}

/// Whether base and its square stay well inside T's range in all lanes; else positions are computed one by one, in
/// double.
template <class D, class V>
HWY_INLINE bool is_ordinary(D d, V base) {
  using T = hn::TFromD<D>;
  const T most = sizeof(T) == 4 ? T(1e30) : static_cast<T>(1e250);
  return hn::AllTrue(d, hn::And(hn::Gt(base, hn::Set(d, 1 / most)), hn::Lt(base, hn::Set(d, most))));
}

/// The sum of squares around channel c; channels are `step` apart.
template <class T>
double exact_response(const T* x, std::int64_t c, std::int64_t step, const LocalResponseNorm& p) {
  const std::int64_t first = c - p.size / 2;
  double squares = 0;
  for (std::int64_t j = std::max<std::int64_t>(first, 0); j < std::min(first + p.size, p.C); ++j)
    squares += static_cast<double>(x[j * step]) * static_cast<double>(x[j * step]);
  return p.k + p.alpha / static_cast<double>(p.size) * squares;
}

/// All channels of one position, in double.
template <class T>
HWY_NOINLINE void exact_response_norm(T* y, const T* x, std::int64_t step, const LocalResponseNorm& p) {
  for (std::int64_t c = 0; c < p.C; ++c)
    y[c * step] = static_cast<T>(x[c * step] / std::pow(exact_response(x, c, step, p), p.beta));
}
template <class T>
HWY_NOINLINE void exact_response_norm_backward(T* grad_x, const T* grad_y, const T* x, const T* y, std::int64_t step,
                                               const LocalResponseNorm& p) {
  const double factor = 2 * p.alpha * p.beta / static_cast<double>(p.size);
  for (std::int64_t c = 0; c < p.C; ++c) {
    const std::int64_t last = c + p.size / 2;
    double sum = 0;
    for (std::int64_t j = std::max<std::int64_t>(last - p.size + 1, 0); j <= std::min(last, p.C - 1); ++j)
      sum += static_cast<double>(grad_y[j * step]) * y[j * step] / exact_response(x, j, step, p);
    grad_x[c * step] =
        static_cast<T>(grad_y[c * step] / std::pow(exact_response(x, c, step, p), p.beta) - factor * x[c * step] * sum);
  }
}

/// Shared by the elements of local response normalisation.
template <class D>
struct ResponseNumbers {
  hn::Vec<D> k, scale, factor;
  std::int64_t before, after;  ///< channels of a window before and after its own
  double beta;
  ResponseNumbers(D d, const LocalResponseNorm& p)
      : k(number(d, p.k)),
        scale(number(d, p.alpha / static_cast<double>(p.size))),
        factor(number(d, 2 * p.alpha * p.beta / static_cast<double>(p.size))),
        before(p.size / 2),
        after(p.size - 1 - p.size / 2),
        beta(p.beta) {}
  static hn::Vec<D> number(D d, double value) { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); }
};

/// Channels in rows of `area`, lanes are positions: the sum of squares around channel c; x points at channel 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> response(D d, const T* x, std::int64_t c, std::int64_t columns, const LocalResponseNorm& p,
                               const ResponseNumbers<D>& numbers) {
  auto squares = hn::Zero(d);
  const std::int64_t first = std::max<std::int64_t>(c - numbers.before, 0);
  for (std::int64_t j = first; j <= std::min(c + numbers.after, p.C - 1); ++j) {
    const auto value = load_columns(d, x + j * p.area, columns);
    squares = hn::Add(squares, hn::Mul(value, value));
  }
  return hn::Add(numbers.k, hn::Mul(numbers.scale, squares));
}

/// All channels of up to a vector of positions.
template <class T>
HWY_NOINLINE void response_norm(T* y, const T* x, std::int64_t columns, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  bool ordinary = true;
  for (std::int64_t c = 0; c < p.C; ++c) {
    const auto value = load_columns(d, x + c * p.area, columns);
    const auto base = response(d, x, c, columns, p, numbers);
    ordinary &= is_ordinary(d, base);
    store_columns(hn::Mul(value, response_powers(d, base, p.beta).power), d, y + c * p.area, columns);
  }
  if (ordinary) return;
  for (std::int64_t i = 0; i < std::min(columns, static_cast<std::int64_t>(hn::Lanes(d))); ++i)
    exact_response_norm(y + i, x + i, p.area, p);
}

template <class T>
struct ResponseGradient {
  T* grad_x;
  const T *grad_y, *x, *y;
  ResponseGradient from(std::int64_t at) const { return {grad_x + at, grad_y + at, x + at, y + at}; }
};

/// The same for the gradient. `shares` holds one vector per channel of grad_y y / response, then of response^-beta.
template <class T>
HWY_NOINLINE void response_norm_backward(const ResponseGradient<T>& arrays, T* shares, std::int64_t columns,
                                         const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  T* const powers = shares + p.C * lanes;
  auto* const grad_x = arrays.grad_x;
  const T *const grad_y = arrays.grad_y, *const x = arrays.x, *const y = arrays.y;
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  bool ordinary = true;
  for (std::int64_t c = 0; c < p.C; ++c) {
    const auto base = response(d, x, c, columns, p, numbers);
    ordinary &= is_ordinary(d, base);
    const auto own = response_powers(d, base, p.beta);
    const auto product =
        hn::Mul(load_columns(d, grad_y + c * p.area, columns), load_columns(d, y + c * p.area, columns));
    hn::StoreU(hn::Mul(product, own.inverse), d, shares + c * lanes);
    hn::StoreU(own.power, d, powers + c * lanes);
  }
  if (!ordinary) {
    for (std::int64_t i = 0; i < std::min(columns, lanes); ++i)
      exact_response_norm_backward(grad_x + i, grad_y + i, x + i, y + i, p.area, p);
    return;
  }
  for (std::int64_t c = 0; c < p.C; ++c) {  // the windows that include c
    auto sum = hn::Zero(d);
    const std::int64_t first = std::max<std::int64_t>(c - numbers.after, 0);
    for (std::int64_t j = first; j <= std::min(c + numbers.before, p.C - 1); ++j)
      sum = hn::Add(sum, hn::LoadU(d, shares + j * lanes));
    const auto direct = hn::Mul(load_columns(d, grad_y + c * p.area, columns), hn::LoadU(d, powers + c * lanes));
    const auto spread = hn::Mul(hn::Mul(numbers.factor, load_columns(d, x + c * p.area, columns)), sum);
    store_columns(hn::Sub(direct, spread), d, grad_x + c * p.area, columns);
  }
}

/// Calls body(thread, first element, positions) for every vector of positions of every image.
template <class T, class Body>
void for_positions(int threads, const LocalResponseNorm& p, const Body& body) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t groups = (p.area + lanes - 1) / lanes, items = p.N * groups;
  parallel(threads, [&](const Team& team) {
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t position = item % groups * lanes;
      body(team.index, item / groups * p.C * p.area + position, p.area - position);
    }
  });
}

// ---- local response, channels last ---------------------------------------------------------------------------------
// Lanes are channels. The terms of the windows are in a row of scratch with zeros on both sides, from which vectors are
// read at every offset.

/// Elements of such a row.
template <class T>
std::int64_t response_row(const LocalResponseNorm& p) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  return (p.C + 2 * p.size + 2 * lanes) / 16 * 16 + 16;
}

/// The sum of `row` over a window that begins `before` channels before channel c; row points at channel 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> window_sum(D d, const T* row, std::int64_t before, std::int64_t size) {
  if (size == 5) {  // the usual one, without a loop's chain of additions
    const T* from = row - before;
    return hn::Add(hn::Add(hn::Add(hn::LoadU(d, from), hn::LoadU(d, from + 1)),
                           hn::Add(hn::LoadU(d, from + 2), hn::LoadU(d, from + 3))),
                   hn::LoadU(d, from + 4));
  }
  auto sum = hn::Zero(d);
  for (std::int64_t j = -before; j < size - before; ++j) sum = hn::Add(sum, hn::LoadU(d, row + j));
  return sum;
}

/// The squares of a position's channels.
template <class T>
HWY_INLINE void square_row(T* row, const T* x, std::int64_t C) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < C; c += lanes) {
    const auto value = load_columns(d, x + c, C - c);
    hn::StoreU(hn::Mul(value, value), d, row + c);
  }
}

/// `squares` is a row, initially all zeros.
template <class T>
HWY_NOINLINE void response_norm_rows(T* y, const T* x, T* squares, std::int64_t positions, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  T* const row = squares + p.size;
  for (std::int64_t i = 0; i < positions; ++i, x += p.C, y += p.C) {
    square_row(row, x, p.C);
    bool ordinary = true;
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const auto base = hn::Add(numbers.k, hn::Mul(numbers.scale, window_sum(d, row + c, numbers.before, p.size)));
      ordinary &= is_ordinary(d, base);
      const auto value = load_columns(d, x + c, p.C - c);
      store_columns(hn::Mul(value, response_powers(d, base, p.beta).power), d, y + c, p.C - c);
    }
    if (!ordinary) exact_response_norm(y, x, 1, p);
  }
}

/// `rows` are three, initially all zeros.
template <class T>
HWY_NOINLINE void response_norm_rows_backward(const ResponseGradient<T>& arrays, T* rows, std::int64_t positions,
                                              const LocalResponseNorm& p) {
  auto [grad_x, grad_y, x, y] = arrays;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  T* const squares = rows + p.size;
  T* const shares = squares + response_row<T>(p);
  T* const powers = shares + response_row<T>(p);
  for (std::int64_t i = 0; i < positions; ++i, x += p.C, y += p.C, grad_y += p.C, grad_x += p.C) {
    square_row(squares, x, p.C);
    bool ordinary = true;
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const auto base = hn::Add(numbers.k, hn::Mul(numbers.scale, window_sum(d, squares + c, numbers.before, p.size)));
      ordinary &= is_ordinary(d, base);
      const auto own = response_powers(d, base, p.beta);
      const auto product = hn::Mul(load_columns(d, grad_y + c, p.C - c), load_columns(d, y + c, p.C - c));
      hn::StoreU(hn::Mul(product, own.inverse), d, shares + c);  // after the last channel: 0
      hn::StoreU(own.power, d, powers + c);
    }
    if (!ordinary) {
      exact_response_norm_backward(grad_x, grad_y, x, y, 1, p);
      continue;
    }
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const auto sum = window_sum(d, shares + c, numbers.after, p.size);
      const auto direct = hn::Mul(load_columns(d, grad_y + c, p.C - c), hn::LoadU(d, powers + c));
      const auto spread = hn::Mul(hn::Mul(numbers.factor, load_columns(d, x + c, p.C - c)), sum);
      store_columns(hn::Sub(direct, spread), d, grad_x + c, p.C - c);
    }
  }
}

double response_work(const LocalResponseNorm& p) {
  return response_cost * static_cast<double>(p.N) * static_cast<double>(p.C) * static_cast<double>(p.area);
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void local_response_norm(Context& context, T* y, const T* x, const LocalResponseNorm& p) {
  const int threads = useful_threads(context, response_work(p));
  if (p.layout == kernels::Layout::channels_first)
    return for_positions<T>(threads, p, [&](int /*thread*/, std::int64_t at, std::int64_t columns) {
      response_norm(y + at, x + at, columns, p);
    });
  const std::int64_t row = response_row<T>(p);
  const Scratch scratch(context, static_cast<std::size_t>(row * threads) * sizeof(T));
  parallel(threads, [&](const Team& team) {
    T* const mine = scratch.as<T>() + row * team.index;
    std::fill_n(mine, row, T(0));
    const std::int64_t begin = team.begin(p.N * p.area), end = team.end(p.N * p.area);
    response_norm_rows(y + begin * p.C, x + begin * p.C, mine, end - begin, p);
  });
}

template <class T>
void local_response_norm_backward(Context& context, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const int threads = useful_threads(context, 2 * response_work(p));
  const bool last = p.layout == kernels::Layout::channels_last;
  const std::int64_t vectors = p.C * static_cast<std::int64_t>(hn::Lanes(d));  // one vector per channel
  const std::int64_t each = last ? 3 * response_row<T>(p) : 2 * vectors;
  const ResponseGradient<T> arrays{grad_x, grad_y, x, y};
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  if (last)
    return parallel(threads, [&](const Team& team) {
      T* const mine = scratch.as<T>() + each * team.index;
      std::fill_n(mine, each, T(0));
      const std::int64_t begin = team.begin(p.N * p.area), end = team.end(p.N * p.area), at = begin * p.C;
      response_norm_rows_backward(arrays.from(at), mine, end - begin, p);
    });
  for_positions<T>(threads, p, [&](int thread, std::int64_t at, std::int64_t columns) {
    response_norm_backward(arrays.from(at), scratch.as<T>() + each * thread, columns, p);
  });
}

template <class T>
const LocalResponse<T>& table() {
  static constexpr LocalResponse<T> table{.forward = local_response_norm<T>,
                                          .backward = built::whole ? local_response_norm_backward<T> : nullptr};
  return table;
}

const LocalResponse<float>& table_float() { return table<float>(); }
const LocalResponse<double>& table_double() { return table<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(local_response, table)

}  // namespace tern::vectorized
#endif
