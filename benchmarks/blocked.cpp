// Products and convolutions in blocks. Every product goes through one loop nest over blocks of `block` x `block`
// elements of b: the block is copied, so that it lies along the innermost loop and stays in the nearest cache. A
// convolution becomes a product over a copy of its windows (im2col).

#include "blocked.hpp"

#include <algorithm>
#include <vector>

#include "tern/tern.hpp"

namespace tern::benchmarks {
namespace {

using kernels::Activation;
using kernels::Conv2d;
using kernels::Linear;
using kernels::Matmul;

constexpr std::int64_t block = 64;

/// A matrix in memory: element (i, j) is at data[i * row + j * column].
struct Matrix {
  const float* data;
  std::int64_t row, column;
};

/// out [m, n] += a [m, k] b [k, n]; out is contiguous.
void add_product(float* out, const Matrix& a, const Matrix& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  float copy[block * block];
  for (std::int64_t p0 = 0; p0 < k; p0 += block)
    for (std::int64_t j0 = 0; j0 < n; j0 += block) {
      const std::int64_t depth = std::min(block, k - p0), columns = std::min(block, n - j0);
      for (std::int64_t p = 0; p < depth; ++p)
        for (std::int64_t j = 0; j < columns; ++j) copy[j * block + p] = b.data[(p0 + p) * b.row + (j0 + j) * b.column];
      // Four rows at a time, so that an element of b serves four sums.
      std::int64_t i = 0;
      for (; i + 4 <= m; i += 4) {
        float* const rows[]{out + i * n + j0, out + (i + 1) * n + j0, out + (i + 2) * n + j0, out + (i + 3) * n + j0};
        for (std::int64_t j = 0; j < columns; ++j) {
          float sum0 = rows[0][j], sum1 = rows[1][j], sum2 = rows[2][j], sum3 = rows[3][j];
          const float* left = a.data + i * a.row + p0 * a.column;
          for (std::int64_t p = 0; p < depth; ++p, left += a.column) {
            const float right = copy[j * block + p];
            sum0 += left[0] * right;
            sum1 += left[a.row] * right;
            sum2 += left[2 * a.row] * right;
            sum3 += left[3 * a.row] * right;
          }
          rows[0][j] = sum0, rows[1][j] = sum1, rows[2][j] = sum2, rows[3][j] = sum3;
        }
      }
      for (; i < m; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          for (std::int64_t p = 0; p < depth; ++p)
            out[i * n + j0 + j] += a.data[i * a.row + (p0 + p) * a.column] * copy[j * block + p];
    }
}

void matmul(Context&, float* out, const float* a, const float* b, const Matmul& s) {
  std::fill_n(out, s.batch * s.m * s.n, 0.F);
  for (std::int64_t i = 0; i < s.batch; ++i)
    add_product(out + i * s.m * s.n, {a + i * s.stride_a, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1},
                {b + i * s.stride_b, s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1}, s.m, s.n, s.k);
}

/// Only what LeNet has; the reference does the others.
bool is_simple(Activation activation) { return activation == Activation::none || activation == Activation::relu; }

void activate(Activation activation, float* y, std::int64_t n) {
  if (activation == Activation::relu)
    for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] <= 0 ? 0 : y[i];  // keeps NaN
}

/// grad_y * activation'(y).
std::vector<float> inner_gradient(Activation activation, const float* grad_y, const float* y, std::int64_t n) {
  std::vector<float> g(grad_y, grad_y + n);
  if (activation == Activation::relu)
    for (std::int64_t i = 0; i < n; ++i)
      if (y[i] <= 0) g[static_cast<std::size_t>(i)] = 0;
  return g;
}

const kernels::Operators<float>& reference() { return mode("sequential").operators; }

void linear(Context& context, float* y, const float* x, const float* weight, const float* bias, const Linear& s) {
  if (!is_simple(s.activation)) return reference().dot.linear(context, y, x, weight, bias, s);
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t o = 0; o < s.out; ++o) y[row * s.out + o] = bias == nullptr ? 0 : bias[o];
  add_product(y, {x, s.in, 1}, {weight, 1, s.in}, s.rows, s.out, s.in);
  activate(s.activation, y, s.rows * s.out);
}

void linear_backward(Context& context, float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y,
                     const float* x, const float* weight, const float* y, const Linear& s) {
  if (!is_simple(s.activation))
    return reference().dot.linear_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, s);
  const std::vector<float> g = inner_gradient(s.activation, grad_y, y, s.rows * s.out);
  if (grad_x != nullptr) {
    std::fill_n(grad_x, s.rows * s.in, 0.F);
    add_product(grad_x, {g.data(), s.out, 1}, {weight, s.in, 1}, s.rows, s.in, s.out);
  }
  if (grad_weight != nullptr) {
    std::fill_n(grad_weight, s.out * s.in, 0.F);
    add_product(grad_weight, {g.data(), 1, s.out}, {x, s.in, 1}, s.out, s.in, s.rows);
  }
  if (grad_bias != nullptr) {
    std::fill_n(grad_bias, s.out, 0.F);
    for (std::int64_t i = 0; i < s.rows * s.out; ++i) grad_bias[i % s.out] += g[static_cast<std::size_t>(i)];
  }
}

bool fits(const Conv2d& s) {
  return s.groups == 1 && s.layout == kernels::Layout::channels_first && is_simple(s.activation);
}

/// Calls visit(row, position, where) for each element of an image's windows [C KH KW, OH OW]: where it is in the image,
/// or -1 in the padding.
template <class Visit>
void for_windows(const Conv2d& s, Visit visit) {
  for (std::int64_t row = 0; row < s.C * s.KH * s.KW; ++row)
    for (std::int64_t oh = 0; oh < s.OH; ++oh)
      for (std::int64_t ow = 0; ow < s.OW; ++ow) {
        const std::int64_t h = oh * s.stride_h - s.pad_h + row / s.KW % s.KH * s.dilation_h;
        const std::int64_t w = ow * s.stride_w - s.pad_w + row % s.KW * s.dilation_w;
        const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
        visit(row, oh * s.OW + ow, inside ? (row / (s.KH * s.KW) * s.H + h) * s.W + w : -1);
      }
}

void conv2d(Context& context, float* y, const float* x, const float* weight, const float* bias, const Conv2d& s) {
  if (!fits(s)) return reference().conv.conv2d(context, y, x, weight, bias, s);
  const std::int64_t window = s.C * s.KH * s.KW, area = s.OH * s.OW, image = s.C * s.H * s.W;
  std::vector<float> columns(static_cast<std::size_t>(window * area));
  for (std::int64_t n = 0; n < s.N; ++n) {
    for_windows(s, [&](std::int64_t row, std::int64_t position, std::int64_t where) {
      columns[static_cast<std::size_t>(row * area + position)] = where < 0 ? 0 : x[n * image + where];
    });
    float* const out = y + n * s.O * area;
    for (std::int64_t o = 0; o < s.O; ++o) std::fill_n(out + o * area, area, bias == nullptr ? 0 : bias[o]);
    add_product(out, {weight, window, 1}, {columns.data(), area, 1}, s.O, area, window);
    activate(s.activation, out, s.O * area);
  }
}

void conv2d_backward(Context& context, float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y,
                     const float* x, const float* weight, const float* y, const Conv2d& s) {
  if (!fits(s))
    return reference().conv.conv2d_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, s);
  const std::int64_t window = s.C * s.KH * s.KW, area = s.OH * s.OW, image = s.C * s.H * s.W;
  const std::vector<float> all = inner_gradient(s.activation, grad_y, y, s.N * s.O * area);
  std::vector<float> columns(static_cast<std::size_t>(window * area));
  if (grad_x != nullptr) std::fill_n(grad_x, s.N * image, 0.F);
  if (grad_weight != nullptr) std::fill_n(grad_weight, s.O * window, 0.F);
  if (grad_bias != nullptr) std::fill_n(grad_bias, s.O, 0.F);
  for (std::int64_t n = 0; n < s.N; ++n) {
    const float* const g = all.data() + n * s.O * area;
    if (grad_x != nullptr) {
      std::fill(columns.begin(), columns.end(), 0.F);
      add_product(columns.data(), {weight, 1, window}, {g, area, 1}, window, area, s.O);
      for_windows(s, [&](std::int64_t row, std::int64_t position, std::int64_t where) {
        if (where >= 0) grad_x[n * image + where] += columns[static_cast<std::size_t>(row * area + position)];
      });
    }
    if (grad_weight != nullptr) {
      for_windows(s, [&](std::int64_t row, std::int64_t position, std::int64_t where) {
        columns[static_cast<std::size_t>(row * area + position)] = where < 0 ? 0 : x[n * image + where];
      });
      add_product(grad_weight, {g, area, 1}, {columns.data(), 1, area}, s.O, window, area);
    }
    if (grad_bias != nullptr)
      for (std::int64_t i = 0; i < s.O * area; ++i) grad_bias[i / area] += g[i];
  }
}

}  // namespace

void register_blocked() {
  static const bool registered = [] {
    Mode blocked = mode("sequential");
    blocked.description = "products and convolutions in blocks, on one thread";
    blocked.operators.dot = {.matmul = matmul, .linear = linear, .linear_backward = linear_backward};
    blocked.operators.conv.conv2d = conv2d;
    blocked.operators.conv.conv2d_backward = conv2d_backward;
    register_mode("blocked", blocked);
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace tern::benchmarks
