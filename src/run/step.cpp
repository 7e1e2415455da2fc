#include "tern/run/step.hpp"

#include <algorithm>
#include <utility>

#include "modes/registry.hpp"
#include "run/auto_choice.hpp"

namespace tern {

struct Step::State {
  StepFunction function;
  std::size_t arity = 0;                     // 0: any
  std::vector<std::shared_ptr<Plan>> plans;  // most recently used first
  std::size_t most = 32;
  std::int64_t replays = 0, launches = 0;
  std::string unrecorded;
  bool automatic_call = false;                       // the last call was in a Device{"auto"}
  std::vector<std::shared_ptr<AutoChoice>> choices;  // for calls in a Device{"auto"}; most recently used first

  std::shared_ptr<Plan> plan(const StepKey& key, const std::vector<Tensor>& tensors);
  std::vector<Tensor> call(const std::vector<Tensor>& inputs, Scope& scope);
  std::vector<Tensor> automatic(const std::vector<Tensor>& inputs, Scope& scope);
  bool loop(StepLoop& loop, std::int64_t first);
};

namespace {

void check_inputs(const std::vector<Tensor>& inputs, std::size_t expected) {
  expects(expected == 0 || inputs.size() == expected, "Step: the function takes ", expected, " tensors, got ",
          inputs.size());
  for (const Tensor& input : inputs) expects(input.defined(), "Step: an input is undefined");
}

std::int64_t steps_of(const std::vector<Tensor>& inputs, const std::vector<Step::Change>& changes) {
  const auto rows = [](const Tensor& tensor) { return tensor.rank() == 0 ? 0 : tensor.shape()[0]; };
  const std::int64_t steps = rows(inputs[0]);
  for (const Tensor& input : inputs) {
    expects<ShapeError>(rows(input) == steps && steps > 0,
                        "Step: the inputs of a loop need the same number of rows, at least one; found ",
                        inputs[0].shape(), " and ", input.shape());
    expects<AutogradError>(!input.requires_grad(),
                           "Step: an input of a loop requires a gradient; pass its detach(), or call step by step");
  }
  for (const auto& [tensor, values] : changes) {
    expects(tensor.defined() && values.defined(), "Step: a change of a loop is undefined");
    expects<ShapeError>(rows(values) == steps && values[0].shape() == tensor.shape() && tensor.is_contiguous(),
                        "Step: a contiguous tensor ", tensor.shape(), " changes in the ", steps,
                        " steps of a loop, but its values are ", values.shape());
    expects<DTypeError>(values.dtype() == tensor.dtype(), "Step: a tensor of ", tensor.dtype(),
                        " cannot change to values of ", values.dtype());
  }
  return steps;
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
  std::vector<Tensor> results = run_all(inputs);
  expects(results.size() == 1, "Step: the function returns ", results.size(), " tensors; call run_all");
  return std::move(results[0]);
}

std::vector<Tensor> Step::run_all(const std::vector<Tensor>& inputs) {
  check_inputs(inputs, state_->arity);
  Scope& scope = current_scope();
  // The checks of a scope run beside the operators, so their cost would distort the trials.
  state_->automatic_call = scope.automatic != 0 && scope.observer == nullptr && Recording::running() == nullptr;
  return state_->automatic_call ? state_->automatic(inputs, scope) : state_->call(inputs, scope);
}

Tensor Step::run_each(const std::vector<Tensor>& inputs, const std::vector<Change>& changes) {
  check_inputs(inputs, state_->arity);
  expects(!inputs.empty(), "Step: a loop needs an input");
  std::vector<Change> copies = changes;
  for (Change& change : copies)
    if (change.values.defined()) change.values = change.values.contiguous();
  StepLoop loop{inputs, copies, steps_of(inputs, copies)};
  for (std::int64_t step = 0; step < loop.count; ++step) {
    for (Change& change : copies) change.tensor.copy_(change.values[step]);
    if (state_->loop(loop, step)) break;
    loop.keep(step, run(loop.rows(step)));
  }
  return loop.results;
}

// Whether the steps from `first` on ran as one launch.
bool Step::State::loop(StepLoop& loop, std::int64_t first) {
  Scope& scope = current_scope();
  const Capture* const capture = scope.mode->capture;
  if (capture == nullptr || capture->loop == nullptr || first + 1 == loop.count) return false;
  if (scope.automatic != 0 || scope.observer != nullptr || Recording::running() != nullptr) return false;
  const std::vector<Tensor> rows = loop.rows(first);
  const StepKey key(scope, rows);
  const auto found = std::ranges::find_if(plans, [&](const auto& plan) { return plan->fits(key, rows); });
  if (found == plans.end() || !(*found)->call_loop(loop, first, scope)) return false;
  automatic_call = false;
  replays += (*found)->replayed();
  std::rotate(plans.begin(), found, std::next(found));
  ++launches;
  unrecorded.clear();
  return true;
}

std::vector<Tensor> Step::State::automatic(const std::vector<Tensor>& inputs, Scope& scope) {
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
  std::vector<Tensor> results = choice->call([&] { return call(inputs, current_scope()); }, apart ? before : nullptr);
  if (undecided && choice->chosen() != nullptr)
    std::erase_if(plans, [&](const auto& plan) {
      StepKey its = plan->key();
      const bool elsewhere = std::exchange(its.mode, nullptr) != choice->chosen();
      return elsewhere && its == key;
    });
  return results;
}

std::vector<Tensor> Step::State::call(const std::vector<Tensor>& inputs, Scope& scope) {
  if (scope.observer != nullptr && scope.mode->capture != nullptr) {
    unrecorded = "Step: the scope checks every operator (verify, numerics), which a replay does not run one by one";
    return cut(function(inputs));
  }
  // Inside another Step's run this one is part of its work.
  if (scope.mode->capture == nullptr || Recording::running() != nullptr) return cut(function(inputs));
  const StepKey key(scope, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (key.inputs[i].requires_grad && !inputs[i].is_leaf()) {
      unrecorded = message("Step: input ", i, " is the result of recorded operators, and a replay has no graph; ",
                           "pass its detach(), or compute it inside the function");
      return cut(function(inputs));
    }
  const std::shared_ptr<Plan> known = plan(key, inputs);  // the function may reset the step
  std::vector<Tensor> results = known->call(function, inputs, scope);
  replays += known->replayed();
  launches += known->replayed();
  unrecorded = known->reason();
  return results;
}

Step::Step(Function function) : state_(std::make_unique<State>()) { state_->function = std::move(function); }
Step::Step(std::function<Tensor(const Tensor&)> function) : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return std::vector{function(inputs[0])};
  };
  state_->arity = 1;
}
Step::Step(std::function<Tensor(const Tensor&, const Tensor&)> function) : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return std::vector{function(inputs[0], inputs[1])};
  };
  state_->arity = 2;
}
Step::Step(std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> function)
    : state_(std::make_unique<State>()) {
  state_->function = [function = std::move(function)](const std::vector<Tensor>& inputs) {
    return std::vector{function(inputs[0], inputs[1], inputs[2])};
  };
  state_->arity = 3;
}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

std::int64_t Step::replays() const { return state_->replays; }
std::int64_t Step::launches() const { return state_->launches; }
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
  expects(most > 0, "Step: ", most, " recordings are too few; keep at least one");
  state_->most = static_cast<std::size_t>(most);
  if (state_->plans.size() > state_->most) state_->plans.resize(state_->most);
}

}  // namespace tern
