#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/winograd_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>

#include "core/built.hpp"
#include "vectorized/convolution/winograd_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// ---- the matrices --------------------------------------------------------------------------------------------------
// Convolution as a product of polynomials, evaluated at points and interpolated (Toom and Cook): one frequency per
// point, the last one at infinity. With 0, 1, -1, 1/2 and -2 the results are about three times as far from the exact
// ones as a direct sum's; the more usual 2 and -2 lose twice as much.

template <int size>
struct Points;
template <>
struct Points<6> {
  static constexpr double values[]{0, 1, -1, 0.5, -2};
};

template <int rows, int columns>
struct Table {
  double values[rows][columns] = {};
};

/// Coefficients of the product of (x - p) over all points but one (-1: over all).
template <int size>
constexpr std::array<double, size> product_of_factors(int without) {
  std::array<double, size> coefficients{1};
  for (int k = 0; k < size - 1; ++k) {
    if (k == without) continue;
    for (int i = size - 1; i >= 0; --i)
      coefficients[i] = (i > 0 ? coefficients[i - 1] : 0) - Points<size>::values[k] * coefficients[i];
  }
  return coefficients;
}

constexpr double power(double base, int exponent) {
  double result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

/// Powers [degree, size] of the points; infinity has only the last.
template <int degree, int size>
constexpr Table<degree, size> powers() {
  Table<degree, size> table;
  for (int i = 0; i < degree; ++i)
    for (int k = 0; k < size - 1; ++k) table.values[i][k] = power(Points<size>::values[k], i);
  table.values[degree - 1][size - 1] = 1;
  return table;
}

template <int size>
constexpr Table<size, size> input_table() {
  Table<size, size> table;
  for (int k = 0; k < size; ++k)
    for (int i = 0; i < size; ++i) table.values[k][i] = product_of_factors<size>(k == size - 1 ? -1 : k)[i];
  return table;
}

template <int taps, int size>
constexpr Table<size, taps> weight_table() {
  Table<size, taps> table;
  for (int k = 0; k < size; ++k) {
    double scale = 1;
    for (int j = 0; j < size - 1; ++j)
      if (k < size - 1 && j != k) scale *= Points<size>::values[k] - Points<size>::values[j];
    for (int i = 0; i < taps; ++i) table.values[k][i] = powers<taps, size>().values[i][k] / scale;
  }
  return table;
}

template <int rows, int columns>
constexpr Table<columns, rows> transposed(const Table<rows, columns>& table) {
  Table<columns, rows> result;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) result.values[j][i] = table.values[i][j];
  return result;
}

template <int m, int r>
struct InputMatrix {
  static constexpr int rows = m + r - 1, columns = m + r - 1;
  static constexpr auto table = input_table<m + r - 1>();
};
template <int m, int r>
struct OutputMatrix {
  static constexpr int rows = m, columns = m + r - 1;
  static constexpr auto table = powers<m, m + r - 1>();
};
template <int m, int r>
struct WeightMatrix {
  static constexpr int rows = m + r - 1, columns = r;
  static constexpr auto table = weight_table<r, m + r - 1>();
};
template <int m, int r>
struct GradientMatrix {
  static constexpr int rows = m + r - 1, columns = m;
  static constexpr auto table = transposed(OutputMatrix<m, r>::table);
};
template <int m, int r>
struct WeightGradientMatrix {
  static constexpr int rows = r, columns = m + r - 1;
  static constexpr auto table = transposed(WeightMatrix<m, r>::table);
};

// ---- a matrix on both sides of a square ----------------------------------------------------------------------------

/// sum plus row I of the matrix, from column J on, times `in`; `started`: there is a sum already.
template <class Matrix, int I, int J, bool started, class D, class V>
HWY_INLINE V row_product(D d, const V (&in)[Matrix::columns], V sum) {
  if constexpr (J == Matrix::columns) {
    return sum;
  } else {
    constexpr double factor = Matrix::table.values[I][J];
    if constexpr (factor == 0) {
      return row_product<Matrix, I, J + 1, started>(d, in, sum);
    } else {
      const auto constant = hn::Set(d, static_cast<hn::TFromD<D>>(factor));
      if constexpr (!started)
        sum = factor == 1 ? in[J] : hn::Mul(in[J], constant);
      else if constexpr (factor == 1)
        sum = hn::Add(sum, in[J]);
      else if constexpr (factor == -1)
        sum = hn::Sub(sum, in[J]);
      else
        sum = hn::MulAdd(in[J], constant, sum);
      return row_product<Matrix, I, J + 1, true>(d, in, sum);
    }
  }
}

template <class Matrix, int I, class D, class V, class Use>
HWY_INLINE void product(D d, const V (&in)[Matrix::columns], const Use& use) {
  if constexpr (I < Matrix::rows) {
    use(I, row_product<Matrix, I, 0, false>(d, in, hn::Zero(d)));
    product<Matrix, I + 1>(d, in, use);
  }
}

/// out [rows, rows] = matrix in [columns, columns] matrix^T for every channel of every square. `last`: with bias and
/// relu; `watched`: reports whether all results, before relu, are finite.
template <class Matrix, bool last, bool watched, class T>
bool transform(const Transform<T>& work) {
  constexpr int rows = Matrix::rows, columns = Matrix::columns;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  HWY_ALIGN T between[rows * columns * lanes];
  const Squares<T> out = work.out;
  const Squares<const T> in = work.in;
  const V top = hn::Set(d, work.top);
  auto zero = hn::Zero(d);  // plus 0 times each result: NaN forever after one that is not finite
  for (std::int64_t n = 0; n < work.count; ++n)
    for (std::int64_t c = 0; c < work.channels; c += lanes) {
      const T* from = in.data + n * in.step + c;
      T* to = out.data + n * out.step + c;
      for (std::int64_t j = 0; j < columns; ++j, from += in.column) {
        V column[columns];
        for (std::int64_t i = 0; i < columns; ++i) column[i] = hn::LoadU(d, from + i * in.row);
        product<Matrix, 0>(d, column, [&](std::int64_t i, V value) HWY_ATTR {
          hn::Store(value, d, between + (i * columns + j) * lanes);
        });
      }
      const V shift = last && work.bias != nullptr ? hn::LoadU(d, work.bias + c) : hn::Zero(d);
      for (std::int64_t i = 0; i < rows; ++i, to += out.row) {
        V row[columns];
        for (std::int64_t j = 0; j < columns; ++j) row[j] = hn::Load(d, between + (i * columns + j) * lanes);
        product<Matrix, 0>(d, row, [&](std::int64_t j, V value) HWY_ATTR {
          if constexpr (last) {
            value = hn::Add(value, shift);
            zero = hn::MulAdd(value, hn::Zero(d), zero);
            if (work.relu) {
              value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);  // keeps NaN
              value = hn::IfThenElse(hn::Gt(value, top), top, value);
            }
          } else if constexpr (watched) {
            zero = hn::MulAdd(value, hn::Zero(d), zero);
          }
          hn::StoreU(value, d, to + j * out.column);
        });
      }
    }
  return !watched || hn::AllTrue(d, hn::Eq(zero, hn::Zero(d)));
}

template <class T, int m, int r>
const WinogradKernels<T>& kernels() {
  static constexpr WinogradKernels<T> table{
      .outputs = m,
      .taps = r,
      .input = transform<InputMatrix<m, r>, false, false, T>,
      .output = transform<OutputMatrix<m, r>, true, true, T>,
      .weight = transform<WeightMatrix<m, r>, false, false, T>,
      .gradient = built::whole ? transform<GradientMatrix<m, r>, false, false, T> : nullptr,
      .weight_gradient = built::whole ? transform<WeightGradientMatrix<m, r>, false, true, T> : nullptr};
  return table;
}

template <class T>
const WinogradKernels<T>* kernels_for(std::int64_t taps) {
  switch (taps) {
    case 3:
      return &kernels<T, 4, 3>();
    case 4:
      return &kernels<T, 3, 4>();
    case 5:
      return &kernels<T, 2, 5>();
    default:
      return nullptr;
  }
}

const WinogradKernels<float>* kernels_float(std::int64_t taps) { return kernels_for<float>(taps); }
const WinogradKernels<double>* kernels_double(std::int64_t taps) { return kernels_for<double>(taps); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

HWY_EXPORT(kernels_float);
HWY_EXPORT(kernels_double);

template <>
const WinogradKernels<float>* winograd_kernels<float>(std::int64_t taps) {
  return HWY_DYNAMIC_DISPATCH(kernels_float)(taps);
}
template <>
const WinogradKernels<double>* winograd_kernels<double>(std::int64_t taps) {
  return HWY_DYNAMIC_DISPATCH(kernels_double)(taps);
}

}  // namespace tern::vectorized::convolution
#endif
