// Losses without a slot of their own.

#include "operators/composed_loss.hpp"

#include <limits>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/activation.hpp"
#include "tern/operators/loss.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

Tensor reduced(const Tensor& losses, Reduce reduce) {
  return reduce == Reduce::none ? losses : reduce == Reduce::sum ? sum(losses) : mean(losses);
}

// reduce(loss(prediction, target)), both of one shape, in float32 if they have 16 bits; the result is then float32,
// too.
template <class Loss>
Tensor pointwise(const char* op, const Tensor& prediction, const Tensor& target, Reduce reduce, Loss loss) {
  check_dtypes(op, prediction, target);
  check_floating(op, "the prediction", prediction);
  expects<ShapeError>(prediction.shape() == target.shape(), op, ": prediction ", prediction.shape(), " and target ",
                      target.shape(), " differ; losses do not broadcast, expand or reshape one of them");
  const DType wide = scalar_of(prediction.dtype());
  return reduced(loss(prediction.to(wide), target.to(wide)), reduce);
}

// delta * error - delta^2 / 2 beyond delta, error^2 / 2 below: q (error - q / 2) with q = min(error, delta), in which
// no term exceeds the result.
Tensor huber_of(const Tensor& error, double delta) {
  const Tensor near = clamp(error, 0, delta);
  return mul(near, sub(error, mul(near, 0.5)));
}

}  // namespace

Tensor huber(const Tensor& prediction, const Tensor& target, double delta, Reduce reduce) {
  if (traces()) return traced("huber", prediction, target, delta, reduce);
  expects<NumericError>(delta > 0, "huber: delta ", delta, ", expected above 0");
  return pointwise("huber", prediction, target, reduce,
                   [delta](const Tensor& x, const Tensor& t) { return huber_of(abs(sub(x, t)), delta); });
}

Tensor smooth_l1(const Tensor& prediction, const Tensor& target, double beta, Reduce reduce) {
  if (traces()) return traced("smooth_l1", prediction, target, beta, reduce);
  expects<NumericError>(beta >= 0, "smooth_l1: beta ", beta, ", expected at least 0");
  return pointwise("smooth_l1", prediction, target, reduce, [beta](const Tensor& x, const Tensor& t) {
    const Tensor error = abs(sub(x, t));
    return beta == 0 ? error : div(huber_of(error, beta), beta);
  });
}

namespace {

// The losses times the elements' weights, if any.
Tensor weighed(const char* op, const Tensor& losses, const Tensor& weight) {
  if (!weight.defined()) return losses;
  expects<ShapeError>(broadcast(op, losses.shape(), weight.shape()) == losses.shape(), op, ": a weight of ",
                      weight.shape(), " does not broadcast to ", losses.shape());
  return mul(losses, weight.detach().to(losses.dtype()));
}

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  return pointwise(op, logits, target, options.reduce, [&](const Tensor& x, const Tensor& t) {
    expects<AutogradError>(!recording(t), op, ": the target takes no gradient; detach() it");
    // -log(sigmoid(x)) is softplus(-x), and -log(1 - sigmoid(x)) that plus x.
    const Tensor positive = weighed(op, t, options.pos_weight), negative = sub(1, t);
    return weighed(op, add(mul(positive, softplus(neg(x))), mul(negative, softplus(x))), options.weight);
  });
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            const BinaryCrossEntropyOptions& options) {
  constexpr const char* op = "binary_cross_entropy";
  expects(!options.pos_weight.defined(), op, ": pos_weight is for binary_cross_entropy_with_logits");
  if (traces()) return traced("binary_cross_entropy", probabilities, target, options.weight, without_tensors(options));
  return pointwise(op, probabilities, target, options.reduce, [&](const Tensor& x, const Tensor& t) {
    expects<AutogradError>(!recording(t), op, ": the target takes no gradient; detach() it");
    const Tensor p = x.detach(), rest = sub(1, t);
    const auto logarithm = [](const Tensor& value) { return clamp(value, -100, infinity); };
    Tensor losses = neg(add(mul(t, logarithm(log(p))), mul(rest, logarithm(log1p(neg(p))))));
    if (recording(x))
      record(op, losses, {x}, [p = Saved(p), t = Saved(t)](const Tensor& grad) {
        const Tensor variance = clamp(mul(p.get(), sub(1, p.get())), 1e-12, infinity);
        return Gradients{mul(grad, div(sub(p.get(), t.get()), variance))};
      });
    return weighed(op, losses, options.weight);
  });
}

Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, bool log_target, Reduce reduce) {
  if (traces()) return traced("kl_div", log_probabilities, target, log_target, reduce);
  return pointwise("kl_div", log_probabilities, target, reduce, [log_target](const Tensor& x, const Tensor& t) {
    // One after another: in which order gradients are added up must not depend on the compiler.
    if (log_target) {
      const Tensor apart = sub(t, x), weight = exp(t);
      return mul(weight, apart);
    }
    const Tensor nothing = equal(t, 0);  // 0 log 0 is 0
    const Tensor crossed = mul(t, x), own = mul(t, log(replace(t, nothing, 1)));
    return sub(own, crossed);
  });
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim, double epsilon) {
  if (traces()) return traced("cosine_similarity", a, b, dim, epsilon);
  return compose("cosine_similarity", a, b, [&](const Tensor& x, const Tensor& y) {
    const Shape shape = broadcast("cosine_similarity", x.shape(), y.shape());
    const Dims dims{normalize_dim("cosine_similarity", dim, shape.rank())};
    const auto unit = [&](const Tensor& tensor) {
      const Tensor whole = tensor.expand(shape);
      return div(whole, clamp(norm(whole, 2, dims, true), epsilon, infinity));
    };
    return sum(mul(unit(x), unit(y)), dims);
  });
}

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha, double gamma, Reduce reduce) {
  if (traces()) return traced("sigmoid_focal_loss", logits, target, alpha, gamma, reduce);
  expects<NumericError>(gamma >= 0, "sigmoid_focal_loss: gamma ", gamma, ", expected at least 0");
  return pointwise("sigmoid_focal_loss", logits, target, reduce, [&](const Tensor& x, const Tensor& t) {
    // The probability of the other class, computed from both sides so that it keeps its digits near 0.
    const Tensor labels = t.detach(), others = sub(1, labels);
    // One after another, as in kl_div.
    const Tensor missed = mul(sigmoid(neg(x)), labels), mistaken = mul(sigmoid(x), others);
    const Tensor focus = pow(add(mistaken, missed), gamma);
    const Tensor losses = mul(binary_cross_entropy_with_logits(x, labels, Reduce::none), focus);
    return alpha < 0 ? losses : mul(losses, add(mul(labels, alpha), mul(others, 1 - alpha)));
  });
}

namespace {

// Every position of [N, classes, d...] as a row [classes].
Tensor rows_of(const Tensor& x) {
  std::vector<std::int64_t> order{0};
  for (int i = 2; i < x.rank(); ++i) order.push_back(i);
  order.push_back(1);
  const std::int64_t classes = x.shape()[1];
  return permute(x, order).reshape({classes == 0 ? 0 : x.numel() / classes, classes});
}

// Checks what all forms share; returns whether there are weights.
bool check_weights(const char* op, const Tensor& logits, const CrossEntropyOptions& options) {
  check_floating(op, "the prediction", logits);
  check_rank(op, "the prediction", logits, 2);
  expects<NumericError>(options.label_smoothing >= 0 && options.label_smoothing <= 1, op, ": label_smoothing ",
                        options.label_smoothing, " is outside [0, 1]");
  if (!options.weight.defined()) return false;
  check_dtypes(op, logits, options.weight);
  expects<ShapeError>(options.weight.shape() == Shape{logits.shape()[1]}, op, ": weights ", options.weight.shape(),
                      " of the classes of ", logits.shape(), ", expected [", logits.shape()[1], "]");
  return true;
}

}  // namespace

namespace {

// loss(rows, labels) for every position of x [N, classes, d...]. `soft`: labels are probabilities of x's shape.
template <class Loss>
Tensor spread(const char* op, const Tensor& x, const Tensor& labels, bool soft, Reduce reduce, Loss loss) {
  Shape positions{x.shape()[0]};
  for (int i = 2; i < x.rank(); ++i) positions.push_back(x.shape()[i]);
  const Shape& expected = soft ? x.shape() : positions;
  expects<ShapeError>(labels.shape() == expected, op, ": labels ", labels.shape(), " for predictions ", x.shape(),
                      ", expected ", expected);
  const Tensor losses = loss(rows_of(x), soft ? rows_of(labels) : labels.reshape({labels.numel()}));
  return reduce == Reduce::none ? losses.reshape(positions) : losses;
}

// nll with other values instead of log-probabilities: the column of each row's label, and 0 for ignored rows.
Tensor picked(const Tensor& values, const Tensor& labels, const CrossEntropyOptions& options) {
  return neg(nll(values, labels, {.ignore_index = options.ignore_index, .reduce = Reduce::none}));
}

// Reduces the losses of rows that are weighted by their labels.
Tensor weighted(const Tensor& losses, const Tensor& weight, const Tensor& labels, const Shape& shape,
                const CrossEntropyOptions& options) {
  if (options.reduce != Reduce::mean) return reduced(losses, options.reduce);
  return div(sum(losses), sum(picked(weight.expand(shape), labels, options)));
}

}  // namespace

Tensor spread_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const bool soft = is_floating(labels.dtype()) && labels.rank() == logits.rank();
  return spread("cross_entropy", logits, labels, soft, options.reduce,
                [&](const Tensor& rows, const Tensor& of_rows) { return cross_entropy(rows, of_rows, options); });
}

Tensor spread_nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options) {
  return spread("nll", log_probabilities, labels, false, options.reduce,
                [&](const Tensor& rows, const Tensor& of_rows) { return nll(rows, of_rows, options); });
}

Tensor weighted_nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options) {
  check_weights("nll", log_probabilities, options);
  const DType wide = scalar_of(log_probabilities.dtype());
  const Tensor weight = options.weight.detach().to(wide);
  // Weighted after the selection: 0 times the infinity of another class would be NaN.
  const Tensor losses = neg(mul(picked(log_probabilities.to(wide), labels, options),
                                picked(weight.expand(log_probabilities.shape()), labels, options)));
  return weighted(losses, weight, labels, log_probabilities.shape(), options);
}

Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const bool weighted = check_weights("cross_entropy", logits, options);
  check_dtypes("cross_entropy", logits, targets);
  expects<ShapeError>(logits.shape() == targets.shape(), "cross_entropy: predictions ", logits.shape(),
                      " and probabilities ", targets.shape(), " differ");
  const DType wide = scalar_of(logits.dtype());
  Tensor share = targets.to(wide);
  if (const double smoothing = options.label_smoothing; smoothing > 0)
    share = add(mul(share, 1 - smoothing), smoothing / static_cast<double>(logits.shape()[1]));
  if (weighted) share = mul(share, options.weight.detach().to(wide));
  Tensor log_probabilities = log_softmax(logits.to(wide), 1);
  // A class with target 0 costs nothing, even if it is impossible.
  const Tensor impossible = equal(log_probabilities, -infinity);
  log_probabilities = replace(log_probabilities, bitwise_and(impossible, equal(share, 0)), 0);
  return reduced(neg(sum(mul(share, log_probabilities), 1)), options.reduce);
}

Tensor weighted_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  check_weights("cross_entropy", logits, options);
  const DType wide = scalar_of(logits.dtype());
  const Tensor log_probabilities = log_softmax(logits.to(wide), 1), weight = options.weight.detach().to(wide);
  Tensor losses = neg(picked(mul(log_probabilities, weight), labels, options));
  if (const double smoothing = options.label_smoothing; smoothing > 0) {
    const Tensor ignored = equal(labels, static_cast<double>(options.ignore_index));
    const Tensor uniform = replace(neg(sum(mul(log_probabilities, weight), 1)), ignored, 0);
    losses = add(mul(losses, 1 - smoothing), mul(uniform, smoothing / static_cast<double>(logits.shape()[1])));
  }
  return weighted(losses, weight, labels, logits.shape(), options);
}

}  // namespace tern::operators
