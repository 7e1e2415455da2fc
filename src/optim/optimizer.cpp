#include "tern/optim/optimizer.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "run/recording.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::optim {

Optimizer::Optimizer(const char* name, std::vector<Tensor> parameters, double learning_rate)
    : name_(name), parameters_(std::move(parameters)) {
  expects(!parameters_.empty(), name_, ": there are no parameters to optimise");
  for (const Tensor& tensor : parameters_) {
    expects(
        tensor.defined() && tensor.requires_grad(), name_,
        ": a parameter does not require a gradient; pass the parameters() of a module, or call set_requires_grad()");
    expects<AutogradError>(tensor.is_leaf(), name_, ": a parameter is the result of a recorded operator, not a leaf");
    expects<DTypeError>(tensor.dtype() == parameters_[0].dtype(), name_, ": parameters are ", parameters_[0].dtype(),
                        " and ", tensor.dtype(), "; use one optimiser for each dtype");
    expects<ShapeError>(tensor.is_contiguous(), name_, ": a parameter ", tensor.shape(), " is not contiguous");
  }
  rate_tensor_ = empty({1}, scalar_of(parameters_[0].dtype()));
  check_rate(learning_rate);
  write_rate(learning_rate);
}

Optimizer::Optimizer(const char* name) : name_(name), rate_tensor_(empty({1})) { write_rate(1); }

void Optimizer::take_over(const Optimizer& other) {
  for (const Tensor& tensor : other.parameters_) {
    for (const Tensor& own : parameters_)
      expects(!own.is(tensor), name_, ": a parameter of shape ", tensor.shape(), " is in two groups");
    parameters_.push_back(tensor);
  }
}

void Optimizer::step_if(const Tensor& applies) {
  expects(conditional(), name_, ": its steps cannot depend on a tensor");
  const struct Restored {
    Tensor &place, rate = place;
    ~Restored() { place = rate; }
  } restored{rate_tensor_};
  const NoGrad no_grad;
  rate_tensor_ = operators::where(applies, restored.rate, std::numeric_limits<double>::quiet_NaN());
  step();
}

void Optimizer::zero_grad() {
  for (Tensor& tensor : parameters_) tensor.zero_grad();
}

void Optimizer::check_rate(double rate) const {
  expects(rate >= 0, name_, ": the learning rate is ", rate, ", it must not be negative");
}

void Optimizer::set_learning_rate(double rate) {
  apply_learning_rate(rate);
  scheduled_rate_.reset();
}

void Optimizer::apply_learning_rate(double rate) {
  check_rate(rate);
  write_rate(rate);
}

void Optimizer::write_rate(double rate) {
  if (rate_tensor_.dtype() == DType::float64)
    rate_tensor_.write<double>()[0] = rate;
  else
    rate_tensor_.write<float>()[0] = static_cast<float>(rate);
  rate_ = rate;
}

std::vector<Step::Change> Optimizer::rate_changes(const std::vector<double>& rates) const {
  Tensor values = empty({static_cast<std::int64_t>(rates.size()), 1}, rate_tensor_.dtype());
  for (const double rate : rates) check_rate(rate);
  if (values.dtype() == DType::float64)
    std::ranges::copy(rates, values.write<double>().begin());
  else
    std::ranges::transform(rates, values.write<float>().begin(), [](double rate) { return static_cast<float>(rate); });
  return {{rate_tensor_, values}};
}

std::vector<std::size_t> Optimizer::active() const {
  if (detail::observer != nullptr) tell([&](Observer& observer) { observer.depends(same_slots_); });
  std::vector<std::size_t> found;
  found.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].grad().defined()) found.push_back(i);
  return found;
}

nn::State Optimizer::state() const {
  // slots() returns what load_state fills; here it is only read.
  nn::State state{{"learning_rate", scalar(rate_)}};
  for (const Slot& slot : const_cast<Optimizer*>(this)->slots())
    for (std::size_t i = 0; i < slot.tensors->size(); ++i)
      if ((*slot.tensors)[i].defined()) state.emplace(message(i, '.', slot.name), (*slot.tensors)[i]);
  return state;
}

void Optimizer::load_state(const nn::State& state) {
  // Existing tensors are filled in place, because a recorded Step may hold them; missing ones are created, and those
  // that the state does not have are dropped.
  if (const auto entry = state.find("learning_rate"); entry != state.end())
    if (const Tensor& loaded_rate = entry->second; loaded_rate.defined() && loaded_rate.numel() == 1)
      check_rate(loaded_rate.item());
  Tensor rate = scalar(rate_);
  std::vector<nn::NamedTensor> targets{{"learning_rate", rate}};
  std::vector<std::vector<Tensor>> loaded;
  for (const Slot& slot : slots()) {
    std::vector<Tensor>& tensors = loaded.emplace_back(slot.tensors->size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = message(i, '.', slot.name);
      if (!state.contains(name)) continue;
      tensors[i] = (*slot.tensors)[i].defined() ? (*slot.tensors)[i] : empty(parameters_[i].shape(), slot_dtype(i));
      targets.push_back({name, tensors[i]});
    }
  }
  nn::load_tensors(message("load_state: the state does not fit this ", name_), targets, state);
  std::size_t position = 0;
  bool same = true;
  for (const Slot& slot : slots()) {
    std::vector<Tensor>& tensors = loaded[position++];
    for (std::size_t i = 0; i < tensors.size(); ++i) same &= tensors[i].defined() == (*slot.tensors)[i].defined();
    *slot.tensors = std::move(tensors);
  }
  if (!same) *std::exchange(same_slots_, std::make_shared<bool>(true)) = false;
  apply_learning_rate(rate.item());
}

Tensor Optimizer::owner_of(const std::string& entry) const {
  const auto dot = entry.find('.');
  std::size_t i = 0;
  if (dot == std::string::npos || dot == 0 ||
      std::from_chars(entry.data(), entry.data() + dot, i).ptr != entry.data() + dot)
    return {};
  for (const Slot& slot : const_cast<Optimizer*>(this)->slots())
    if (i < slot.tensors->size() && entry.compare(dot + 1, std::string::npos, slot.name) == 0) return parameters_[i];
  return {};
}

void Optimizer::made(Tensor& tensor) {
  restore_on_failure([&tensor] { tensor = {}; });
}

void Optimizer::restore_on_failure(std::function<void()> undo) {
  if (Recording* recording = Recording::current())
    recording->on_failure([undo = std::move(undo), alive = std::weak_ptr<bool>(same_slots_)] {
      if (!alive.expired()) undo();
    });
}

}  // namespace tern::optim
