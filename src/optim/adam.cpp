#include "tern/optim/adam.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tern/operators/update.hpp"

namespace tern::optim {

Adam::Adam(const char* name, std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(name, std::move(parameters), options.learning_rate),
      options_(options),
      decoupled_(decoupled),
      first_(size()),
      second_(size()),
      counters_(size(), std::make_shared<Counter>()) {
  expects(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, name, ": betas ",
          options.beta1, " and ", options.beta2, " are not in [0, 1)");
  expects(options.epsilon >= 0 && options.weight_decay >= 0, name, ": epsilon ", options.epsilon, " and weight decay ",
          options.weight_decay, " must not be negative");
}

std::shared_ptr<Adam::Counter> Adam::Counter::part() {
  *std::exchange(whole, std::make_shared<bool>(true)) = false;
  auto other = std::make_shared<Counter>();
  other->steps = steps.clone();
  return other;
}

void Adam::step() {
  std::vector<std::size_t> waiting = active();
  while (!waiting.empty()) {
    // The parameters that share the first one's counter. Those without a gradient keep it.
    std::shared_ptr<Counter> counter = counters_[waiting[0]];
    std::vector<std::size_t> together, others;
    for (const std::size_t i : waiting) (counters_[i] == counter ? together : others).push_back(i);
    if (std::ranges::count(counters_, counter) != std::ssize(together)) {
      restore_on_failure([this, before = counters_] { counters_ = before; });
      counter = counter->part();
      for (const std::size_t i : together) counters_[i] = counter;
    }
    if (detail::observer != nullptr) tell([&](Observer& observer) { observer.depends(counter->whole); });
    step(together, counter->steps);
    waiting = std::move(others);
  }
}

void Adam::step(const std::vector<std::size_t>& positions, const Tensor& steps) {
  std::vector<Tensor> parameters, gradients, first, second;
  for (const std::size_t i : positions) {
    if (!first_[i].defined()) {
      first_[i] = zeros(parameter(i).shape(), slot_dtype(i));
      second_[i] = zeros(parameter(i).shape(), slot_dtype(i));
      made(first_[i]);
      made(second_[i]);
    }
    parameters.push_back(parameter(i));
    gradients.push_back(parameter(i).grad());
    first.push_back(first_[i]);
    second.push_back(second_[i]);
  }
  operators::adam(parameters, gradients, first, second, learning_rate_tensor(), steps,
                  {.beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .epsilon = options_.epsilon,
                   .weight_decay = options_.weight_decay,
                   .decoupled = decoupled_});
}

std::string Adam::describe() const {
  return message(Optimizer::describe(), ", betas ", options_.beta1, " and ", options_.beta2, ", epsilon ",
                 options_.epsilon, ", weight decay ", options_.weight_decay);
}

nn::State Adam::state() const {
  nn::State state = Optimizer::state();
  for (std::size_t i = 0; i < size(); ++i)
    if (first_[i].defined()) state.emplace(message(i, ".step"), counters_[i]->steps);
  return state;
}

void Adam::load_state(const nn::State& state) {
  nn::State moments = state;
  // States of earlier versions have one count for all.
  const auto common = moments.extract("step");
  std::vector<std::int64_t> steps(size(), 0);
  for (std::size_t i = 0; i < size(); ++i) {
    const auto own = moments.extract(message(i, ".step"));
    const bool stepped = moments.contains(message(i, ".exp_avg"));
    const nn::State::node_type& entry = own ? own : common;
    expects(stepped == static_cast<bool>(own) || (stepped && common), "load_state: the state has ",
            stepped ? "no " : "a ", i, ".step", stepped ? "" : " without moments");
    if (stepped) steps[i] = entry.mapped().item<std::int64_t>();
    expects(steps[i] >= 0, "load_state: ", i, ".step is ", steps[i]);
  }
  Optimizer::load_state(moments);
  // A counter is kept for the first count among its parameters, because a recorded Step may hold it.
  std::map<std::pair<std::shared_ptr<Counter>, std::int64_t>, std::shared_ptr<Counter>> loaded;
  std::set<std::shared_ptr<Counter>> taken;
  for (std::size_t i = 0; i < size(); ++i) {
    std::shared_ptr<Counter>& counter = loaded[{counters_[i], steps[i]}];
    if (!counter) counter = taken.insert(counters_[i]).second ? counters_[i] : counters_[i]->part();
    counters_[i] = counter;
  }
  for (const auto& [key, counter] : loaded) counter->steps.fill_(key.second);
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : Adam("AdamW", std::move(parameters),
           {options.learning_rate, options.beta1, options.beta2, options.epsilon, options.weight_decay}, true) {}

}  // namespace tern::optim
