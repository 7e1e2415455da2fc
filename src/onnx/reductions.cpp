#include <cmath>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

using Reduction = Tensor (*)(const Tensor& x, const Dims& dims, bool keep);

/// Sums of integers are int64; ONNX keeps the dtype.
Tensor as(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : op::cast(x, dtype); }
Tensor sum(const Tensor& x, const Dims& dims, bool keep) { return as(op::sum(x, dims, keep), x.dtype()); }
Tensor prod(const Tensor& x, const Dims& dims, bool keep) { return as(op::prod(x, dims, keep), x.dtype()); }
Tensor sum_square(const Tensor& x, const Dims& dims, bool keep) { return sum(op::mul(x, x), dims, keep); }
Tensor l1(const Tensor& x, const Dims& dims, bool keep) { return sum(op::abs(x), dims, keep); }
Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : op::cast(x, DType::float64); }
Tensor l2(const Tensor& x, const Dims& dims, bool keep) { return as(op::norm(floating(x), 2, dims, keep), x.dtype()); }
Tensor log_sum(const Tensor& x, const Dims& dims, bool keep) {
  return as(op::log(op::sum(floating(x), dims, keep)), x.dtype());
}
Tensor log_sum_exp(const Tensor& x, const Dims& dims, bool keep) {
  return as(op::logsumexp(floating(x), dims, keep), x.dtype());
}
Tensor mean(const Tensor& x, const Dims& dims, bool keep) { return as(op::mean(floating(x), dims, keep), x.dtype()); }

/// The largest of no numbers is the smallest that the dtype has.
template <Tensor (*function)(const Tensor&, const Dims&, bool), bool largest>
Tensor extreme(const Tensor& x, const Dims& dims, bool keep) {
  if (x.numel() != 0) return function(x, dims, keep);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor none = op::sum(x, dims, keep);
  const Number edge = with_type_of(x.dtype(), [&]<class T>(T) -> Number {
    if constexpr (std::is_same_v<T, bool>)
      return largest ? 0 : 1;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<std::int64_t>(largest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max());
    else
      return largest ? -infinity : infinity;
  });
  return op::expand(full({}, edge, x.dtype()), none.shape());
}

template <Reduction function>
Results reduce(const Call& call) {
  const Tensor& x = call.input(0);
  const bool keep = call.integer("keepdims", 1) != 0, stays = call.integer("noop_with_empty_axes", 0) != 0;
  const Integers axes = axes_of(call, 1);
  if (axes.empty() && stays)
    return {function == static_cast<Reduction>(sum) ? x
                                                    : function(op::reshape(x,
                                                                           [&] {
                                                                             Shape shape = x.shape();
                                                                             shape.push_back(1);
                                                                             return shape;
                                                                           }()),
                                                               {-1}, false)};
  if (x.rank() == 0) return {op::reshape(function(op::reshape(x, {1}), {0}, true), {})};
  return {function(x, axes, keep)};
}

template <Tensor (*function)(const Tensor&, std::int64_t, bool)>
Results position(const Call& call) {
  const Tensor& given = call.input(0);
  const Tensor x = given.dtype() == DType::int8 ? op::cast(given, DType::int32) : given;
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const bool keep = call.integer("keepdims", 1) != 0;
  if (call.integer("select_last_index", 0) == 0) return {function(x, axis, keep)};
  return {op::sub(static_cast<double>(x.size(axis) - 1), function(op::flip(x, {axis}), axis, keep))};
}

template <Tensor (*function)(const Tensor&, std::int64_t, std::optional<DType>)>
Results cumulative(const Call& call) {
  Tensor x = call.input(0);
  const int axis = axis_of(call, call.known_integer(1), x.rank());
  const bool backwards = call.integer("reverse", 0) != 0, exclusive = call.integer("exclusive", 0) != 0;
  if (backwards) x = op::flip(x, {axis});
  if (exclusive && x.size(axis) > 0) {
    const bool product =
        function == static_cast<Tensor (*)(const Tensor&, std::int64_t, std::optional<DType>)>(op::cumprod);
    x = op::pad(x, {{axis, 1, -1}}, product ? 1 : 0);
  }
  const Tensor result = as(function(x, axis, {}), x.dtype());
  return {backwards ? op::flip(result, {axis}) : result};
}

}  // namespace

void append_reductions(Table& table) {
  table["ReduceSum"] = reduce<sum>;
  table["ReduceMean"] = reduce<mean>;
  table["ReduceProd"] = reduce<prod>;
  table["ReduceMax"] = reduce<extreme<op::max, true>>;
  table["ReduceMin"] = reduce<extreme<op::min, false>>;
  table["ReduceL1"] = reduce<l1>;
  table["ReduceL2"] = reduce<l2>;
  table["ReduceLogSum"] = reduce<log_sum>;
  table["ReduceLogSumExp"] = reduce<log_sum_exp>;
  table["ReduceSumSquare"] = reduce<sum_square>;
  table["ArgMax"] = position<op::argmax>;
  table["ArgMin"] = position<op::argmin>;
  table["CumSum"] = cumulative<op::cumsum>;
  table["CumProd"] = cumulative<op::cumprod>;
}

}  // namespace tern::onnx
