#include "tern/operators/loss.hpp"

#include "operators/composed_loss.hpp"
#include "operators/support.hpp"
#include "operators/traced.hpp"

namespace tern::operators {

namespace {

kernels::CrossEntropy sizes_of(const char* op, const Tensor& logits, const Tensor& labels,
                               const CrossEntropyOptions& options) {
  check_rank(op, "the prediction", logits, 2);
  check_rank(op, "the label tensor", labels, 1);
  expects<ShapeError>(labels.shape()[0] == logits.shape()[0], op, ": ", labels.shape()[0], " labels for ",
                      logits.shape()[0], " rows of predictions ", logits.shape());
  expects<NumericError>(options.label_smoothing >= 0 && options.label_smoothing <= 1, op, ": label_smoothing ",
                        options.label_smoothing, " is outside [0, 1]");
  return {logits.shape()[0], logits.shape()[1], options.ignore_index, options.label_smoothing, options.reduce};
}

// For at most this many logits the gradient is computed with the loss, for the backward that begins there: one kernel
// fewer.
constexpr std::int64_t most_with_gradient = 1 << 16;

Shape loss_shape(Reduce reduce, const Shape& shape) { return reduce == Reduce::none ? shape : Shape{}; }

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  if (traces()) return traced("cross_entropy", logits, labels, options.weight, without_tensors(options));
  check_defined("cross_entropy", "the prediction", logits);
  check_defined("cross_entropy", "the label tensor", labels);
  if (logits.rank() > 2) return spread_cross_entropy(logits, labels, options);
  if (is_floating(labels.dtype()) && labels.rank() == 2) return soft_cross_entropy(logits, labels, options);
  if (options.weight.defined()) return weighted_cross_entropy(logits, labels, options);
  const kernels::CrossEntropy sizes = sizes_of("cross_entropy", logits, labels, options);
  const Tensor classes = checked_labels("cross_entropy", labels, sizes.classes, sizes.ignore_index);
  const Tensor whole = logits.detach().contiguous();
  const DType kept = scalar_of(logits.dtype());
  Tensor out(loss_shape(options.reduce, labels.shape()), kept), probabilities, gradient;
  if (recording(logits)) probabilities = Tensor(logits.shape(), kept);
  if (recording(logits) && options.reduce != Reduce::none && logits.numel() <= most_with_gradient)
    gradient = Tensor(logits.shape(), logits.dtype());
  visit("cross_entropy", logits.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().loss.cross_entropy(call.context(), call.scalars_out(out),
                                    probabilities.defined() ? call.scalars_out(probabilities) : nullptr,
                                    gradient.defined() ? call.out(gradient) : nullptr, call.in(whole),
                                    call.template in_as<std::int64_t>(classes), sizes);
  });
  if (recording(logits))
    record("cross_entropy", out, {logits},
           [probabilities = Saved(probabilities), classes = Saved(classes), gradient = Saved(gradient), sizes,
            dtype = logits.dtype()](const Tensor& grad) {
             if (gradient.defined() && autograd::is_first_gradient(grad)) return Gradients{gradient.get()};
             const Tensor whole_grad = grad.contiguous();
             Tensor grad_in(probabilities.get().shape(), dtype);
             visit("cross_entropy", dtype, [&]<class T>() {
               const Call<T> call;
               call.table().loss.cross_entropy_backward(call.context(), call.out(grad_in), call.scalars_in(whole_grad),
                                                        call.scalars_in(probabilities.get()),
                                                        call.template in_as<std::int64_t>(classes.get()), sizes);
             });
             return Gradients{grad_in};
           });
  return out;
}

Tensor nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options) {
  if (traces()) return traced("nll", log_probabilities, labels, options.weight, without_tensors(options));
  check_defined("nll", "the prediction", log_probabilities);
  check_defined("nll", "the label tensor", labels);
  expects<NumericError>(options.label_smoothing == 0, "nll: label_smoothing is for cross_entropy");
  if (log_probabilities.rank() > 2) return spread_nll(log_probabilities, labels, options);
  if (options.weight.defined()) return weighted_nll(log_probabilities, labels, options);
  const kernels::CrossEntropy sizes = sizes_of("nll", log_probabilities, labels, options);
  const Tensor classes = checked_labels("nll", labels, sizes.classes, sizes.ignore_index);
  const Tensor whole = log_probabilities.detach().contiguous();
  Tensor out(loss_shape(options.reduce, labels.shape()), scalar_of(whole.dtype()));
  visit("nll", whole.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().loss.nll(call.context(), call.scalars_out(out), call.in(whole),
                          call.template in_as<std::int64_t>(classes), sizes);
  });
  if (recording(log_probabilities))
    record("nll", out, {log_probabilities},
           [classes = Saved(classes), sizes, dtype = whole.dtype()](const Tensor& grad) {
             const Tensor whole_grad = grad.contiguous();
             Tensor grad_in({sizes.rows, sizes.classes}, dtype);
             visit("nll", dtype, [&]<class T>() {
               const Call<T> call;
               call.table().loss.nll_backward(call.context(), call.out(grad_in), call.scalars_in(whole_grad),
                                              call.template in_as<std::int64_t>(classes.get()), sizes);
             });
             return Gradients{grad_in};
           });
  return out;
}

namespace {

template <class Slot, class BackwardSlot>
Tensor pointwise(const char* op, const Tensor& prediction, const Tensor& target, Reduce reduce, Slot slot,
                 BackwardSlot backward_slot) {
  check_dtypes(op, prediction, target);
  expects<ShapeError>(prediction.shape() == target.shape(), op, ": prediction ", prediction.shape(), " and target ",
                      target.shape(), " differ; losses do not broadcast, expand or reshape one of them");
  expects<AutogradError>(!recording(target), op, ": the target must not require a gradient; detach() it");
  const Tensor x = prediction.detach().contiguous(), t = target.detach().contiguous();
  Tensor out(loss_shape(reduce, prediction.shape()), scalar_of(prediction.dtype()));
  visit(op, prediction.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table().loss)(call.context(), call.scalars_out(out), call.in(x), call.in(t), x.numel(), reduce);
  });
  if (recording(prediction))
    record(op, out, {prediction}, [op, x = Saved(x), t = Saved(t), reduce, backward_slot](const Tensor& grad) {
      const Tensor whole_grad = grad.contiguous();
      Tensor grad_in(x.get().shape(), x.get().dtype());
      visit(op, grad_in.dtype(), [&]<class T>() {
        const Call<T> call;
        backward_slot(call.table().loss)(call.context(), call.out(grad_in), call.scalars_in(whole_grad),
                                         call.in(x.get()), call.in(t.get()), grad_in.numel(), reduce);
      });
      return Gradients{grad_in};
    });
  return out;
}

}  // namespace

#define SLOT(name) \
  [](const auto& table) -> const auto& { return table.name; }

Tensor mse(const Tensor& prediction, const Tensor& target, Reduce reduce) {
  if (traces()) return traced("mse", prediction, target, reduce);
  return pointwise("mse", prediction, target, reduce, SLOT(mse), SLOT(mse_backward));
}
Tensor mae(const Tensor& prediction, const Tensor& target, Reduce reduce) {
  if (traces()) return traced("mae", prediction, target, reduce);
  return pointwise("mae", prediction, target, reduce, SLOT(mae), SLOT(mae_backward));
}
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce) {
  if (traces()) return traced("binary_cross_entropy_with_logits", logits, target, reduce);
  return pointwise("binary_cross_entropy_with_logits", logits, target, reduce, SLOT(binary_cross_entropy_with_logits),
                   SLOT(binary_cross_entropy_with_logits_backward));
}
Tensor hinge(const Tensor& prediction, const Tensor& target, Reduce reduce) {
  if (traces()) return traced("hinge", prediction, target, reduce);
  return pointwise("hinge", prediction, target, reduce, SLOT(hinge), SLOT(hinge_backward));
}

#undef SLOT

}  // namespace tern::operators
