#pragma once
// The gradients of rows with their own statistics: what their kernels share.

#include "cuda/row_norm_rows.cuh"

namespace tern::cuda::row_normalization {

/// The sums of gradients, and of gradients times the normalised x; or their means.
struct Sums {
  double gradient, product;
};

struct PlusSums {
  __device__ Sums operator()(const Sums& a, const Sums& b) const {
    return {a.gradient + b.gradient, a.product + b.product};
  }
};

template <class T>
struct Backward {
  using S = Scalar<T>;
  T* grad_x;
  S *grad_weight, *grad_bias;
  const T *grad_y, *x;
  const S *weight, *mean, *inverse_deviation;
  bool centred;

  __device__ S center(std::int64_t row) const { return mean == nullptr ? S(0) : mean[row]; }
  /// An element's terms of the gradients of weight and bias.
  __device__ Sums product(std::int64_t row, std::int64_t at) const {
    const double gradient = widened(grad_y[at]);
    return {gradient, gradient * ((widened(x[at]) - center(row)) * inverse_deviation[row])};
  }
  /// The same, weighted, for its row's sums.
  __device__ Sums weighted(const Rows& rows, std::int64_t row, std::int64_t i) const {
    const Sums plain = product(row, row * rows.length + i);
    const double scale = rows.parameters<1>(weight, rows.first_parameter(row), i, S(1)).value[0];
    return {plain.gradient * scale, plain.product * scale};
  }
  /// A row's means of weighted terms, from their sums.
  __device__ Sums means(const Rows& rows, const Sums& sums) const {
    const double count = static_cast<double>(rows.length);
    return {centred ? sums.gradient / count : 0, sums.product / count};
  }
  /// The gradient of an element, in double.
  __device__ void write(const Rows& rows, std::int64_t row, std::int64_t i, const Sums& of_row) const {
    const std::int64_t at = row * rows.length + i;
    const double inverse = inverse_deviation[row];
    const double normalized = (double{widened(x[at])} - center(row)) * inverse;
    const double gradient = weighted(rows, row, i).gradient - of_row.gradient - normalized * of_row.product;
    put(grad_x[at], static_cast<S>(inverse * gradient));
  }
  /// Those of a pack; in double what leaves T's range.
  template <int V>
  __device__ void write_pack(const Rows& rows, std::int64_t row, std::int64_t i, const Sums& of_row) const {
    const std::int64_t at = row * rows.length + i;
    const Pack<S, V> gradient = load<V>(grad_y + at), in = load<V>(x + at);
    const Pack<S, V> scale = rows.parameters<V>(weight, rows.first_parameter(row), i, S(1));
    const S inverse = inverse_deviation[row], middle = center(row);
    const S mean_gradient = static_cast<S>(of_row.gradient), mean_product = static_cast<S>(of_row.product);
    Pack<S, V> out;
    bool finite = true;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      out.value[lane] = inverse * (gradient.value[lane] * scale.value[lane] - mean_gradient -
                                   (in.value[lane] - middle) * inverse * mean_product);
      finite = finite && ::isfinite(out.value[lane]);
    }
    if (finite) return store<V>(grad_x + at, out);
    for (int lane = 0; lane < V; ++lane) write(rows, row, i + lane, of_row);
  }
};

// ---- sums ----

/// The elements' weighted terms of their rows' sums.
template <class T>
struct Terms {
  Rows rows;
  Backward<T> pass;
  template <int V>
  __device__ Pack<Sums, V> get(std::int64_t offset) const {
    using S = Scalar<T>;
    const std::int64_t row = rows.row(offset);
    const Pack<S, V> gradient = load<V>(pass.grad_y + offset), x = load<V>(pass.x + offset);
    const S center = pass.center(row), inverse = pass.inverse_deviation[row];
    Pack<double, V> scale;
#pragma unroll
    for (double& value : scale.value) value = 1;
    if (pass.weight != nullptr) {
      const std::int64_t first = rows.first_parameter(row), i = offset - row * rows.length;
      const Pack<S, V> weights = rows.parameters<V>(pass.weight, first, i, S(1));
#pragma unroll
      for (int lane = 0; lane < V; ++lane) scale.value[lane] = weights.value[lane];
    }
    Pack<Sums, V> terms;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const double one = gradient.value[lane] * scale.value[lane];
      terms.value[lane] = {one, one * ((x.value[lane] - center) * inverse)};
    }
    return terms;
  }
  template <int V>
  bool packable() const {
    return aligned<V>(pass.grad_y) && aligned<V>(pass.x) && (rows.area > 1 || aligned<V>(pass.weight));
  }
};

struct StoredSums {
  using State = Sums;
  Sums* out;
  __device__ State init() const { return {0, 0}; }
  __device__ void add(State& state, const Sums& value, std::int64_t) const { state = PlusSums{}(state, value); }
  __device__ State operator()(const State& a, const State& b) const { return PlusSums{}(a, b); }
  __device__ void store(std::int64_t output, const State& state) const { out[output] = state; }
};

template <class T>
struct ParameterSums {
  using State = Sums;
  Scalar<T>*grad_weight, *grad_bias;
  __device__ State init() const { return {0, 0}; }
  __device__ void add(State& state, const Sums& value, std::int64_t) const { state = PlusSums{}(state, value); }
  __device__ State operator()(const State& a, const State& b) const { return PlusSums{}(a, b); }
  __device__ void store(std::int64_t parameter, const State& state) const {
    if (grad_weight != nullptr) grad_weight[parameter] = static_cast<Scalar<T>>(state.product);
    if (grad_bias != nullptr) grad_bias[parameter] = static_cast<Scalar<T>>(state.gradient);
  }
};

/// The gradients if a parameter belongs to a plane.
template <int V, class T>
void differentiate_planes(Context& context, const Rows& rows, const Backward<T>& pass);

}  // namespace tern::cuda::row_normalization
