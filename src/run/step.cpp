#include "tern/run/step.hpp"

#include <algorithm>
#include <utility>

#include "modes/registry.hpp"
#include "run/auto_choice.hpp"

namespace tern {

struct Step::State {
  StepFunction function;
  std::size_t arity = 0;
  std::vector<std::shared_ptr<Plan>> plans;  // the one used last comes first
  std::size_t most = 32;
  std::int64_t replays = 0;
  std::string unrecorded;
  bool automatic_call = false;                       // the last one was in a Device{"auto"}
  std::vector<std::shared_ptr<AutoChoice>> choices;  // of the calls in a Device{"auto"}; the one used last comes first

  std::shared_ptr<Plan> plan(const StepKey& key, const std::vector<Tensor>& tensors);
  Tensor call(const std::vector<Tensor>& inputs, Scope& scope);
  Tensor automatic(const std::vector<Tensor>& inputs, Scope& scope);
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
  check_inputs(inputs, state_->arity);
  Scope& scope = current_scope();
  // The checks of a scope run beside the operators: what they cost says nothing of the modes.
  state_->automatic_call = scope.automatic != 0 && scope.observer == nullptr && Recording::running() == nullptr;
  return state_->automatic_call ? state_->automatic(inputs, scope) : state_->call(inputs, scope);
}

Tensor Step::State::automatic(const std::vector<Tensor>& inputs, Scope& scope) {
  StepKey key(scope, inputs);
  key.mode = nullptr;
  const Mode* const before = choices.empty() ? nullptr : choices.front()->last();
  const bool apart = before != nullptr && !(choices.front()->key() == key);
  if (apart || choices.empty()) {
    auto found = std::ranges::find_if(choices, [&](const auto& choice) { return choice->key() == key; });
    if (found == choices.end()) {
      if (choices.size() >= most) choices.resize(most - 1);
      found = choices.insert(choices.end(), std::make_shared<AutoChoice>(key, usual_modes()));
    }
    std::rotate(choices.begin(), found, found + 1);
  }
  const std::shared_ptr<AutoChoice> choice = choices.front();  // the function may reset the step
  const bool undecided = choice->chosen() == nullptr;
  Tensor result = choice->call([&] { return call(inputs, current_scope()); }, apart ? before : nullptr);
  if (undecided && choice->chosen() != nullptr)
    std::erase_if(plans, [&](const auto& plan) {
      StepKey its = plan->key();
      const bool elsewhere = std::exchange(its.mode, nullptr) != choice->chosen();
      return elsewhere && its == key;
    });
  return result;
}

Tensor Step::State::call(const std::vector<Tensor>& inputs, Scope& scope) {
  if (scope.observer != nullptr && scope.mode->capture != nullptr) {
    unrecorded = "Step: the scope checks every operator (verify, numerics), which a replay does not run one by one";
    return cut(function(inputs));
  }
  // Inside another Step's run this is a part of that one's work.
  if (scope.mode->capture == nullptr || Recording::running() != nullptr) return cut(function(inputs));
  const StepKey key(scope, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (key.inputs[i].requires_grad && !inputs[i].is_leaf()) {
      unrecorded = message("Step: input ", i, " is the result of recorded operators, and a replay has no graph; ",
                           "pass its detach(), or compute it inside the function");
      return cut(function(inputs));
    }
  const std::shared_ptr<Plan> known = plan(key, inputs);  // the function may reset the step
  Tensor result = known->call(function, inputs, scope);
  replays += known->replayed();
  unrecorded = known->reason();
  return result;
}

Step::Step(std::function<Tensor(const Tensor&)> function) : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return function(inputs[0]);
  };
  state_->arity = 1;
}
Step::Step(std::function<Tensor(const Tensor&, const Tensor&)> function) : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return function(inputs[0], inputs[1]);
  };
  state_->arity = 2;
}
Step::Step(std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> function)
    : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return function(inputs[0], inputs[1], inputs[2]);
  };
  state_->arity = 3;
}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

std::int64_t Step::replays() const { return state_->replays; }
const Mode* Step::chosen() const {
  return state_->automatic_call && !state_->choices.empty() ? state_->choices.front()->chosen() : nullptr;
}
const std::string& Step::unrecorded() const { return state_->unrecorded; }
void Step::reset() {
  state_->plans.clear();
  state_->choices.clear();
  state_->unrecorded.clear();
}

void Step::keep_recordings(std::int64_t most) {
  expects(most > 0, "Step: ", most, " recordings make no sense; keep at least one");
  state_->most = static_cast<std::size_t>(most);
  if (state_->plans.size() > state_->most) state_->plans.resize(state_->most);
}

}  // namespace tern
