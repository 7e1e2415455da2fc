#include "tern/device/step.hpp"

#include "device/profiler.hpp"
#include "device/recording.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/shape.hpp"

namespace tern {

namespace {
thread_local Recording* innermost = nullptr;
}

Recording::Recording(bool captures) : outer_(innermost), captures_(captures) {
  innermost = this;
  Storage::listen(this);
}

Recording::~Recording() {
  innermost = outer_;
  Storage::listen(outer_);
}

Recording* Recording::current() { return innermost != nullptr && innermost->captures_ ? innermost : nullptr; }

void Recording::accessed(Storage& storage, bool written) {
  auto [place, fresh] = touched.try_emplace(&storage);
  // A new storage may have the address of one that is gone.
  if (fresh || place->second.storage.expired()) place->second = {storage.weak_from_this(), written};
  place->second.written |= written;
}

random::Key Recording::rebase(Generator& generator, const random::Key& key) {
  const auto found = random.find(&generator);
  expects(found != random.end(),
          "Step: the function draws from a random generator that it did not draw from in its first call");
  Scope& scope = current_scope();
  return {key.seed, key.offset - found->second.start,
          static_cast<const std::uint64_t*>(found->second.base.storage().read(scope))};
}

void Recording::provide(Generator& generator, Tensor base) {
  random[&generator] = {generator.position(), std::move(base)};
}

random::Key draw(Generator& generator) {
  const random::Key key = generator.next();
  if (Recording* recording = Recording::current()) return recording->rebase(generator, key);
  if (innermost != nullptr) innermost->random.try_emplace(&generator);
  return key;
}

namespace {

// The work of one combination of inputs: first run, then recorded, then replayed.
struct Plan {
  struct External {
    std::shared_ptr<Storage> storage;
    const void* pointer;  // where the recording expects it
    bool written;
  };
  struct Input {
    Tensor recorded;                          // what the recording reads
    std::weak_ptr<Storage> copied_from = {};  // weak: a new tensor may have the address of one that is gone
    std::uint64_t copied_version = 0;
    std::int64_t copied_offset = 0;
  };
  struct Stream {
    Generator* generator;
    Tensor base;
    std::uint64_t consumed;
  };

  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  const Mode* mode = nullptr;
  std::vector<std::weak_ptr<Storage>> known;  // what the first run touched
  std::vector<Generator*> generators;         // what it drew from
  bool ran = false;
  void* recording = nullptr;
  std::vector<Input> inputs;
  std::vector<External> externals;
  std::vector<Stream> streams;
  Tensor result;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { forget(); }
  void forget() {
    // Tensors that live in the recording's memory go first.
    result = {};
    inputs.clear();
    externals.clear();
    streams.clear();
    if (recording != nullptr) mode->capture->destroy(recording);
    recording = nullptr;
    ran = false;
  }

  bool fits(const std::vector<Tensor>& tensors, const Mode* present) const {
    if (mode != present || shapes.size() != tensors.size()) return false;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (shapes[i] != tensors[i].shape() || dtypes[i] != tensors[i].dtype()) return false;
    return true;
  }
};

}  // namespace

struct Step::State {
  Function function;
  std::size_t inputs = 0;
  std::vector<std::unique_ptr<Plan>> plans;
  std::int64_t replays = 0;

  Tensor run_first(Plan& plan, const std::vector<Tensor>& tensors);
  void record(Plan& plan, const std::vector<Tensor>& tensors, Scope& scope);
  bool prepare(Plan& plan, const std::vector<Tensor>& tensors, Scope& scope);
  Tensor replay(Plan& plan, Scope& scope);
};

Tensor Step::State::run_first(Plan& plan, const std::vector<Tensor>& tensors) {
  Recording listening(false);
  Tensor result = function(tensors);
  plan.known.clear();
  for (const auto& [storage, touched] : listening.touched) plan.known.push_back(touched.storage);
  plan.generators.clear();
  for (const auto& [generator, random] : listening.random) plan.generators.push_back(generator);
  plan.ran = true;
  return result;
}

void Step::State::record(Plan& plan, const std::vector<Tensor>& tensors, Scope& scope) {
  // Everything that the work will read comes over before recording begins: afterwards nothing can move.
  for (const Tensor& tensor : tensors) {
    Tensor own(tensor.shape(), tensor.dtype());
    own.storage().write(scope);
    plan.inputs.push_back({own});
  }
  for (const std::weak_ptr<Storage>& known : plan.known)
    if (const std::shared_ptr<Storage> storage = known.lock()) storage->read(scope);
  Recording recording(true);
  for (Generator* generator : plan.generators) {
    Tensor base({1}, DType::int64);
    base.storage().write(scope);
    recording.provide(*generator, base);
  }
  std::vector<Tensor> recorded_inputs;
  for (const Plan::Input& input : plan.inputs) recorded_inputs.push_back(input.recorded);

  plan.mode->capture->begin(scope.context.stream);
  try {
    plan.result = function(recorded_inputs);
  } catch (...) {
    for (auto& [generator, random] : recording.random) generator->set_position(random.start);
    plan.mode->capture->abandon(scope.context.stream);
    throw;
  }
  plan.recording = plan.mode->capture->end(scope.context.stream);
  // Recording ran nothing: the replay that follows draws the same numbers.
  for (auto& [generator, random] : recording.random) {
    plan.streams.push_back({generator, random.base, generator->position() - random.start});
    generator->set_position(random.start);
  }
  for (auto& [address, touched] : recording.touched)
    if (std::shared_ptr<Storage> storage = touched.storage.lock()) {
      const void* pointer = storage->pointer_in(*scope.context.memory);
      plan.externals.push_back({std::move(storage), pointer, touched.written});
    }
}

// Brings inputs, parameters and random positions up to date. False when a tensor has moved away from where the
// recording expects it.
bool Step::State::prepare(Plan& plan, const std::vector<Tensor>& tensors, Scope& scope) {
  for (const Plan::External& external : plan.externals)
    if ((external.written ? external.storage->update(scope) : external.storage->read(scope)) != external.pointer)
      return false;
  const NoGrad no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Plan::Input& input = plan.inputs[i];
    const Storage& source = tensors[i].storage();
    const std::shared_ptr<Storage> known = input.copied_from.lock();
    const bool same = known && known.get() == &source && input.copied_version == source.version() &&
                      input.copied_offset == tensors[i].offset();
    if (!same) input.recorded.copy_(tensors[i]);
    input.copied_from = tensors[i].shared_storage();
    input.copied_version = source.version();
    input.copied_offset = tensors[i].offset();
  }
  for (Plan::Stream& stream : plan.streams) {
    const std::uint64_t position = stream.generator->position();
    scope.context.memory->copy_in(stream.base.storage().write(scope), &position, sizeof position, scope.context.stream);
    stream.generator->skip(stream.consumed);
  }
  return true;
}

Tensor Step::State::replay(Plan& plan, Scope& scope) {
  const ProfileSpan span("step replay");
  plan.mode->capture->launch(plan.recording, scope.context.stream);
  ++replays;
  return plan.result;
}

namespace {
void check_inputs(const std::vector<Tensor>& inputs, std::size_t expected) {
  expects(inputs.size() == expected, "Step: the function takes ", expected, " tensors, got ", inputs.size());
  for (const Tensor& input : inputs) expects(input.defined(), "Step: an input is undefined");
}
}  // namespace

Tensor Step::run(const std::vector<Tensor>& inputs) {
  check_inputs(inputs, state_->inputs);
  Scope& scope = current_scope();
  if (scope.mode->capture == nullptr || Recording::current() != nullptr) return state_->function(inputs);
  Plan* plan = nullptr;
  for (const auto& candidate : state_->plans)
    if (candidate->fits(inputs, scope.mode)) plan = candidate.get();
  if (plan == nullptr) {
    plan = state_->plans.emplace_back(std::make_unique<Plan>()).get();
    plan->mode = scope.mode;
    for (const Tensor& input : inputs) {
      plan->shapes.push_back(input.shape());
      plan->dtypes.push_back(input.dtype());
    }
  }
  if (!plan->ran) return state_->run_first(*plan, inputs);
  if (plan->recording == nullptr) state_->record(*plan, inputs, scope);
  if (!state_->prepare(*plan, inputs, scope)) {
    plan->forget();
    return state_->run_first(*plan, inputs);
  }
  return state_->replay(*plan, scope);
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
void Step::reset() { state_->plans.clear(); }

}  // namespace tern
