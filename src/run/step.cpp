#include "tern/run/step.hpp"

#include <algorithm>

#include "run/plan.hpp"

namespace tern {

struct Step::State {
  StepFunction function;
  std::size_t inputs = 0;
  std::vector<std::shared_ptr<Plan>> plans;  // the one used last comes first
  std::size_t most = 32;
  std::int64_t replays = 0;
  std::string unrecorded;

  std::shared_ptr<Plan> plan(const StepKey& key, const std::vector<Tensor>& tensors);
};

namespace {

void check_inputs(const std::vector<Tensor>& inputs, std::size_t expected) {
  expects(inputs.size() == expected, "Step: the function takes ", expected, " tensors, got ", inputs.size());
  for (const Tensor& input : inputs) expects(input.defined(), "Step: an input is undefined");
}

}  // namespace

std::shared_ptr<Plan> Step::State::plan(const StepKey& key, const std::vector<Tensor>& tensors) {
  auto found = std::ranges::find_if(plans, [&](const auto& plan) { return plan->fits(key, tensors); });
  if (found == plans.end()) {
    std::erase_if(plans, [](const auto& plan) { return plan->gone(); });
    if (plans.size() >= most) plans.resize(most - 1);
    plans.push_back(std::make_shared<Plan>(key));
    found = plans.end() - 1;
  }
  std::rotate(plans.begin(), found, found + 1);
  return plans.front();
}

Tensor Step::run(const std::vector<Tensor>& inputs) {
  check_inputs(inputs, state_->inputs);
  State& state = *state_;
  Scope& scope = current_scope();
  if (scope.observer != nullptr && scope.mode->capture != nullptr) {
    state.unrecorded =
        "Step: the scope checks every operator (verify, numerics), which a replay does not run one by one";
    return cut(state.function(inputs));
  }
  // Inside another Step's run this is a part of that one's work.
  if (scope.mode->capture == nullptr || Recording::running() != nullptr) return cut(state.function(inputs));
  const StepKey key(scope, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (key.inputs[i].requires_grad && !inputs[i].is_leaf()) {
      state.unrecorded = message("Step: input ", i, " is the result of recorded operators, and a replay has no graph; ",
                                 "pass its detach(), or compute it inside the function");
      return cut(state.function(inputs));
    }
  const std::shared_ptr<Plan> plan = state.plan(key, inputs);  // the function may reset the step
  Tensor result = plan->call(state.function, inputs, scope);
  state.replays += plan->replayed();
  state.unrecorded = plan->reason();
  return result;
}

Step::Step(std::function<Tensor(const Tensor&)> function) : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return function(inputs[0]);
  };
  state_->inputs = 1;
}
Step::Step(std::function<Tensor(const Tensor&, const Tensor&)> function) : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return function(inputs[0], inputs[1]);
  };
  state_->inputs = 2;
}
Step::Step(std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> function)
    : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return function(inputs[0], inputs[1], inputs[2]);
  };
  state_->inputs = 3;
}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

std::int64_t Step::replays() const { return state_->replays; }
const std::string& Step::unrecorded() const { return state_->unrecorded; }
void Step::reset() {
  state_->plans.clear();
  state_->unrecorded.clear();
}

void Step::keep_recordings(std::int64_t most) {
  expects(most > 0, "Step: ", most, " recordings make no sense; keep at least one");
  state_->most = static_cast<std::size_t>(most);
  if (state_->plans.size() > state_->most) state_->plans.resize(state_->most);
}

}  // namespace tern
