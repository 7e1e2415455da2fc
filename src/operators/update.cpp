#include "tern/operators/update.hpp"

#include <algorithm>
#include <numeric>

#include "modes/aside.hpp"
#include "operators/support.hpp"

namespace tern::operators {

namespace {

// Tensors that belong to the parameters.
struct List {
  const char* which;
  const std::vector<Tensor>& tensors;
  DType dtype;
};

void check_dtype(const char* op, const char* which, std::size_t i, const Tensor& x, DType dtype, DType parameters) {
  expects(x.defined(), op, ": ", which, '[', i, "] is undefined");
  expects<DTypeError>(x.dtype() == dtype, op, ": ", which, '[', i, "] is ", x.dtype(), ", expected ", dtype,
                      " beside parameters of ", parameters, "; convert it with to(...)");
}

// Parallel lists; every tensor is contiguous and has its parameter's shape.
void check_lists(const char* op, const std::vector<Tensor>& parameters, std::initializer_list<List> lists,
                 const Tensor& learning_rate) {
  check_defined(op, "the learning rate", learning_rate);
  expects<ShapeError>(learning_rate.numel() == 1, op, ": the learning rate has shape ", learning_rate.shape(),
                      ", expected one element");
  const DType dtype = parameters[0].dtype();
  expects<DTypeError>(learning_rate.dtype() == scalar_of(dtype), op, ": the learning rate is ", learning_rate.dtype(),
                      ", expected ", scalar_of(dtype), " beside parameters of ", dtype, "; convert it with to(...)");
  for (const auto& [which, list, expected] : lists) {
    expects<ShapeError>(list.size() == parameters.size(), op, ": ", list.size(), " ", which, " for ", parameters.size(),
                        " parameters");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Tensor &parameter = parameters[i], &other = list[i];
      check_dtype(op, "parameters", i, parameter, dtype, dtype);
      check_dtype(op, which, i, other, expected, dtype);
      expects<ShapeError>(parameter.shape() == other.shape(), op, ": ", which, "[", i, "] has shape ", other.shape(),
                          ", the parameter ", parameter.shape());
      expects<ShapeError>(parameter.is_contiguous() && other.is_contiguous(), op, ": parameter ", i, " or its ", which,
                          " is not contiguous");
    }
  }
}

// The pointers that a kernel gets; the vectors outlive the call.
template <class T>
struct Pointers {
  std::vector<T*> value;
  std::vector<Scalar<T>*> first, second;
  std::vector<const T*> gradient;
  std::vector<std::int64_t> size;

  Pointers(const Call<T>& call, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
           const std::vector<Tensor>& first_moments, const std::vector<Tensor>& second_moments) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      value.push_back(call.inout(parameters[i]));
      gradient.push_back(call.in(gradients[i]));
      size.push_back(parameters[i].numel());
    }
    for (const Tensor& moment : first_moments) first.push_back(call.scalars_inout(moment));
    for (const Tensor& moment : second_moments) second.push_back(call.scalars_inout(moment));
  }
  /// Those from `begin` to `end`.
  kernels::Parameters<T> list(std::size_t begin, std::size_t end) const {
    const auto from = [begin](auto& all) { return all.empty() ? nullptr : all.data() + begin; };
    return {.count = static_cast<std::int64_t>(end - begin),
            .value = from(value),
            .gradient = from(gradient),
            .first = from(first),
            .second = from(second),
            .size = from(size)};
  }
  kernels::Parameters<T> list() const { return list(0, value.size()); }
};

/// Parameters in the order in which a recorded step may update them.
class Order {
 public:
  Order(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients, const std::vector<Tensor>& momenta,
        const Tensor& learning_rate)
      : places_(parameters.size()) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      marks_.push_back(momenta.empty() ? Marks::behind({&parameters[i], &gradients[i], &learning_rate})
                                       : Marks::behind({&parameters[i], &gradients[i], &momenta[i], &learning_rate}));
    std::iota(places_.begin(), places_.end(), std::size_t{0});
    std::ranges::stable_sort(places_, {}, [&](std::size_t i) { return marks_[i]; });
  }
  std::vector<Tensor> of(const std::vector<Tensor>& tensors) const {
    std::vector<Tensor> ordered;
    if (!tensors.empty())
      for (const std::size_t i : places_) ordered.push_back(tensors[i]);
    return ordered;
  }
  /// Calls update(begin, end) for the parameters behind each mark.
  template <class Update>
  void for_each_part(const Update& update) const {
    for (std::size_t begin = 0, end = 0; begin < places_.size(); begin = end) {
      const int mark = marks_[places_[begin]];
      while (end < places_.size() && marks_[places_[end]] == mark) ++end;
      const Early early(mark);
      update(begin, end);
    }
  }

 private:
  std::vector<int> marks_;
  std::vector<std::size_t> places_;
};

// A strided gradient (of an expanded sum, for example) is copied first.
std::vector<Tensor> whole(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> result;
  result.reserve(gradients.size());
  for (const Tensor& gradient : gradients)
    result.push_back(gradient.defined() ? gradient.detach().contiguous() : gradient);
  return result;
}

}  // namespace

void sgd(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
         const std::vector<Tensor>& momenta, const Tensor& learning_rate, const kernels::Sgd& options) {
  if (parameters.empty()) return;
  const std::vector<Tensor> whole_gradients = whole(gradients);
  check_defined("sgd", "the first parameter", parameters[0]);
  const DType dtype = parameters[0].dtype();
  check_lists("sgd", parameters, {{"gradients", whole_gradients, dtype}}, learning_rate);
  if (!momenta.empty()) check_lists("sgd", parameters, {{"momenta", momenta, scalar_of(dtype)}}, learning_rate);
  expects(options.momentum == 0 || !momenta.empty(), "sgd: momentum ", options.momentum, " needs momenta");
  expects<NumericError>(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                        "sgd: nesterov needs a momentum above 0 and no dampening");
  const Order order(parameters, whole_gradients, momenta, learning_rate);
  const std::vector<Tensor> in_order = order.of(parameters), gradients_in_order = order.of(whole_gradients),
                            momenta_in_order = order.of(momenta);
  visit("sgd", dtype, [&]<class T>() {
    const Call<T> call;
    const Pointers<T> pointers(call, in_order, gradients_in_order, momenta_in_order, {});
    const Scalar<T>* const rate = call.scalars_in(learning_rate);
    order.for_each_part([&](std::size_t begin, std::size_t end) {
      call.table().update.sgd(call.context(), pointers.list(begin, end), rate, options);
    });
  });
}

void adam(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients, const std::vector<Tensor>& first,
          const std::vector<Tensor>& second, const Tensor& learning_rate, const Tensor& step,
          const kernels::Adam& options) {
  if (parameters.empty()) return;
  const std::vector<Tensor> whole_gradients = whole(gradients);
  check_defined("adam", "the first parameter", parameters[0]);
  const DType dtype = parameters[0].dtype(), kept = scalar_of(dtype);
  check_lists("adam", parameters,
              {{"gradients", whole_gradients, dtype}, {"first moments", first, kept}, {"second moments", second, kept}},
              learning_rate);
  check_defined("adam", "the step", step);
  expects<DTypeError>(step.dtype() == DType::int64 && step.numel() == 1, "adam: the step is ", step.dtype(), " ",
                      step.shape(), ", expected one int64");
  visit("adam", dtype, [&]<class T>() {
    const Call<T> call;
    const Pointers<T> pointers(call, parameters, whole_gradients, first, second);
    auto* const counter = call.template inout_as<std::int64_t>(step);
    call.table().update.adam(call.context(), pointers.list(), call.scalars_in(learning_rate), counter, options);
  });
}

}  // namespace tern::operators
