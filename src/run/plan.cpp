#include "run/plan.hpp"

#include <algorithm>

#include "tern/autograd/tape.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/operators/shape.hpp"

namespace tern {

namespace {

// After this many failed recordings a plan stops recording, and its calls just run.
constexpr int patience = 4;

// A new tensor with the same strides, in a storage as long as the view, with a copy in the scope's memory.
Tensor alike(const Tensor& tensor, Scope& scope) {
  std::int64_t length = tensor.numel() == 0 ? 0 : 1;
  for (int i = 0; i < tensor.rank() && length > 0; ++i) length += (tensor.shape()[i] - 1) * tensor.strides()[i];
  const auto storage = std::make_shared<Storage>(static_cast<std::size_t>(length) * size_of(tensor.dtype()));
  storage->write(scope);
  return {storage, tensor.dtype(), tensor.shape(), tensor.strides(), 0};
}

std::string algorithms_of(const Scope& scope) {
  const Algorithms* const algorithms = scope.context.algorithms;
  return algorithms == nullptr || algorithms->watched.load(std::memory_order_relaxed) == 0 ? std::string()
                                                                                           : forced_algorithms();
}

}  // namespace

StepKey::StepKey(const Scope& scope, const std::vector<Tensor>& tensors)
    : mode(scope.mode),
      threads(scope.context.threads),
      precision(scope.context.precision),
      deterministic(scope.context.deterministic),
      records_gradients(autograd::enabled()),
      algorithms(algorithms_of(scope)),
      inputs(tensors.size()) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Input& input = inputs[i];
    input = {tensors[i].dtype(),
             tensors[i].shape(),
             tensors[i].strides(),
             records_gradients && tensors[i].requires_grad(),
             i,
             i};
    for (std::size_t j = i; j-- > 0;) {
      if (tensors[j].is(tensors[i])) input.same_tensor = j;
      if (&tensors[j].storage() == &tensors[i].storage()) input.same_storage = j;
    }
  }
}

bool Plan::fits(const StepKey& key, const std::vector<Tensor>& inputs) const {
  if (!(key_ == key)) return false;
  for (const Recording::Switch& known : switches_)
    if (*known.on != known.value) return false;
  for (const KnownRandom& known : known_random_)
    if (known.life.expired() || (known.of_thread && known.generator != &default_generator())) return false;
  for (const KnownGradient& known : known_gradients_) {
    if (!known.looked) continue;
    const auto& present =
        (known.input >= 0 ? inputs[static_cast<std::size_t>(known.input)] : known.leaf).body()->gradient;
    if ((present != nullptr) != known.defined) return false;
    if (known.defined && !(present->strides() == known.strides)) return false;
  }
  return true;
}

bool Plan::gone() const {
  return std::ranges::any_of(switches_, [](const auto& known) { return known.on.use_count() == 1; }) ||
         std::ranges::any_of(known_random_, [](const auto& known) { return known.life.expired(); });
}

void Plan::restless(const char* reason) {
  if (++restless_ >= patience) reason_ = reason;
}

// A replay sends no messages on the host. If one rank replayed while another one ran, they would wait for each other.
bool Plan::in_all_ranks(bool own) const {
  const Unobserved hidden;
  for (const Recording::Ranks& group : ranks_) own = group.all(own);
  return own;
}

std::vector<Tensor> Plan::call(const StepFunction& function, const std::vector<Tensor>& inputs, Scope& scope) {
  replayed_ = 0;
  overlap_.clear();
  if (!reason_.empty()) return cut(function(inputs));
  if (!ran_) return run(function, inputs, scope);
  if (recording_ != nullptr && held(inputs)) forget();
  if (recording_ == nullptr && !record(function, inputs, scope)) {
    try {
      return cut(function(inputs));
    } catch (...) {
      reason_.clear();  // the failure was not the recording's
      ran_ = false;
      throw;
    }
  }
  // Two tensors that the recording holds separately share one storage here, and it is written: only the function itself
  // is correct.
  if (overlaps(inputs)) {
    overlap_ = "Step: an input shares its elements with another tensor of the function, which writes one of them";
    if (!settled_) forget();
    return cut(function(inputs));
  }
  if (!prepare(inputs, scope)) {
    forget();
    return run(function, inputs, scope);
  }
  std::vector<Tensor> results = replay(inputs, scope);
  if (!settled_) forget();
  return results;
}

std::vector<Tensor> Plan::run(const StepFunction& function, const std::vector<Tensor>& inputs, Scope& scope) {
  Recording run(*scope.mode, inputs, false);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    run.name(inputs[i], Recording::Part::input, key_.inputs[i].same_storage);
  std::vector<Tensor> results = cut(function(inputs));
  run.drop_inner_leaves();
  std::vector<const Storage*> expected;
  for (const Tensor& result : results)
    if (result.defined()) expected.push_back(&result.storage());
  for (const Recording::Gradient& gradient : run.gradients)
    if (const auto& after = gradient.leaf.body()->gradient) expected.push_back(&after->storage());
  for (const Recording::Switch& known : run.switches)
    if (*known.on != known.value) {
      // No later call can match this run, so this plan represents all calls with the key.
      reason_ =
          "Step: the function changes whether a module trains, which a replay cannot repeat; do that between steps";
      switches_.clear();
      known_gradients_.clear();
      known_random_.clear();
      return results;
    }
  // What a first run creates for later ones (momenta) exists in the second.
  remember(run);
  ran_ = in_all_ranks(run.kept(expected) == 0);
  if (!ran_)
    restless(
        "Step: the function keeps tensors that it makes, in a variable or a list, which a replay cannot repeat; "
        "copy them into a tensor that outlives the step (copy_), or return them");
  return results;
}

bool Plan::repeats(const Recording& run) const {
  const auto same_leaf = [](const KnownGradient& known, const Recording::Gradient& gradient) {
    return known.input == gradient.input && (known.input >= 0 || known.leaf.is(gradient.leaf));
  };
  return run.order == order_ && std::ranges::equal(known_gradients_, run.gradients, same_leaf);
}

void Plan::remember(Recording& run) {
  known_.clear();
  for (const auto& [address, used] : run.used)
    if (used.part == Recording::Part::outside || used.part == Recording::Part::made) known_.push_back(used.storage);
  known_gradients_.clear();
  for (const Recording::Gradient& gradient : run.gradients)
    known_gradients_.push_back({gradient.input < 0 ? gradient.leaf : Tensor(), gradient.input, gradient.looked,
                                gradient.before.defined(),
                                gradient.before.defined() ? gradient.before.strides() : Shape{}});
  known_random_.clear();
  for (const Recording::Random& known : run.random)
    if (!known.life.expired()) known_random_.push_back({known.generator, known.life, known.of_thread});
  switches_ = std::move(run.switches);
  ranks_ = std::move(run.ranks);
  order_ = std::move(run.order);
}

// Leaves everything on the host unchanged: a replay follows. Returns false, with a reason, if the work cannot be
// recorded.
bool Plan::record(const StepFunction& function, const std::vector<Tensor>& inputs, Scope& scope) {
  // Everything that the work reads moves before recording begins: afterwards nothing can move.
  for (const std::weak_ptr<Storage>& known : known_)
    if (const std::shared_ptr<Storage> storage = known.lock()) storage->read(scope);
  std::vector<Tensor> recorded;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const StepKey::Input& key = key_.inputs[i];
    inputs_.push_back({key.same_tensor < i ? inputs_[key.same_tensor].recorded : alike(inputs[i], scope)});
    if (key.requires_grad) inputs_[i].recorded.set_requires_grad();
    recorded.push_back(inputs_[i].recorded);
  }
  // During recording, leaves with a gradient get one of the recording's.
  std::vector<std::pair<Tensor, Tensor>> replaced;
  const auto put_back = [&] {
    for (auto& [leaf, gradient] : replaced) leaf.set_grad(gradient);
    for (Input& input : inputs_) input.recorded.zero_grad();
  };
  try {
    for (const KnownGradient& known : known_gradients_) {
      if (!known.looked || !known.defined) continue;
      const bool is_input = known.input >= 0;
      const auto position = static_cast<std::size_t>(is_input ? known.input : 0);
      const Tensor present = (is_input ? inputs[position] : known.leaf).grad();
      Tensor leaf = is_input ? recorded[position] : known.leaf;
      leaf.set_grad(alike(present, scope));
      if (!is_input) replaced.emplace_back(leaf, present);
    }
    std::vector<Tensor> counters;
    for (std::size_t i = 0; i < known_random_.size(); ++i)
      counters.emplace_back(Shape{1}, DType::int64).storage().write(scope);
    Recording run(*scope.mode, recorded, true);
    for (std::size_t i = 0; i < recorded.size(); ++i)
      run.name(recorded[i], Recording::Part::input, key_.inputs[i].same_storage);
    for (std::size_t i = 0; i < known_random_.size(); ++i) run.expect(*known_random_[i].generator, counters[i]);
    try {
      capture(function, run, recorded, scope);
      run.restore();
    } catch (...) {
      run.restore();
      undo_ = run.take_undo();
      throw;
    }
  } catch (const std::exception& error) {
    reason_ = error.what();
  } catch (...) {
    reason_ = "Step: the function threw something that is not a std::exception";
  }
  put_back();
  if (!agreed_) {
    try {
      if (!in_all_ranks(reason_.empty()) && reason_.empty()) reason_ = "Step: another rank cannot record its step";
      agreed_ = settled_ = in_all_ranks(settled_);
    } catch (...) {
      forget();
      throw;
    }
  }
  if (!reason_.empty()) {
    forget();
    return false;
  }
  if (!settled_) restless("Step: the function does different work with the same tensors, which a replay cannot repeat");
  return true;
}

void Plan::capture(const StepFunction& function, Recording& run, const std::vector<Tensor>& recorded, Scope& scope) {
  const Capture& capture = *key_.mode->capture;
  void* const stream = scope.context.stream;
  capture.begin(stream);
  std::vector<Tensor> results;
  try {
    results = cut(function(recorded));
    run.drop_inner_leaves();
    run.check_generators();
  } catch (...) {
    capture.abandon(stream);
    throw;
  }
  recording_ = capture.end(stream);
  keep(run, results, scope);
}

void Plan::keep(Recording& run, const std::vector<Tensor>& results, const Scope& scope) {
  using Part = Recording::Part;
  const auto written = [&](const Tensor& tensor) {
    const auto found = run.used.find(&tensor.storage());
    return found != run.used.end() && found->second.written;
  };
  for (Input& input : inputs_) input.written = written(input.recorded);
  for (const Recording::Gradient& gradient : run.gradients) {
    Gradient& kept = gradients_.emplace_back();
    if (gradient.input < 0) kept.leaf = gradient.leaf;
    kept.input = gradient.input;
    kept.looked = gradient.looked;
    if (gradient.looked) kept.recorded = gradient.before;
    kept.written = kept.recorded.defined() && written(kept.recorded);
  }
  for (std::size_t i = 0; i < run.gradients.size(); ++i) {
    const Recording::Gradient& gradient = run.gradients[i];
    const auto& after = gradient.leaf.body()->gradient;
    gradients_[i].replaced = after ? !after->is(gradient.before) : gradient.before.defined() || !gradient.looked;
    if (!gradients_[i].replaced || !after) continue;
    gradients_[i].after = view_of(*after, run);
    if (gradients_[i].after.source == Source::made) made_[gradients_[i].after.index].gradients.push_back(i);
  }
  for (const Tensor& result : results) {
    results_.push_back(result.defined() ? view_of(result, run) : View());
    if (results_.back().source == Source::made) made_[results_.back().index].results.push_back(results_.size() - 1);
  }
  for (Made& made : made_)
    made.copied = (copies_gradients_ && !made.gradients.empty()) || (copies_results_ && !made.results.empty());

  for (const auto& [address, used] : run.used) {
    const std::shared_ptr<Storage> storage = used.storage.lock();
    if (used.part != Part::outside || storage == nullptr) continue;
    outside_.push_back({storage, storage->pointer_in(*scope.context.memory), used.written, storage->roles()});
    outside_sorted_.emplace_back(address, used.written);
  }
  std::ranges::sort(outside_sorted_);
  for (const Recording::Random& known : run.random)
    if (known.counter.defined() && !known.life.expired())
      random_.push_back({known.generator, known.seed, known.counter, known.generator->position() - known.start});

  std::vector<const Storage*> expected;
  for (const Made& made : made_) expected.push_back(made.storage.get());
  settled_ = repeats(run) && run.kept(expected) == 0;
  remember(run);
  undo_ = run.take_undo();
}

Plan::View Plan::view_of(const Tensor& tensor, const Recording& run) {
  View view;
  view.dtype = tensor.dtype();
  view.shape = tensor.shape();
  view.strides = tensor.strides();
  view.offset = tensor.offset();
  const auto same = [&](const Tensor& other) { return other.defined() && &other.storage() == &tensor.storage(); };
  const auto found = run.used.find(&tensor.storage());
  expects(found != run.used.end() || tensor.numel() == 0, "Step: the function returns a tensor of ", tensor.shape(),
          " that it did not compute in this mode");
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (view.source == Source::none && same(inputs_[i].recorded)) view.source = Source::input, view.index = i;
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (view.source == Source::none && same(gradients_[i].recorded)) view.source = Source::gradient, view.index = i;
  if (view.source != Source::none) return view;
  if (tensor.numel() == 0 || found->second.part != Recording::Part::made) {
    view.source = Source::outside;
    view.outside = tensor.shared_storage();
    return view;
  }
  view.source = Source::made;
  const auto known = std::ranges::find(made_, tensor.shared_storage(), &Made::storage);
  view.index = static_cast<std::size_t>(known - made_.begin());
  if (known == made_.end()) made_.push_back({tensor.shared_storage()});
  return view;
}

void Plan::forget() {
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
  undo_.clear();
  // Tensors in the recording's memory are released first.
  results_.clear();
  inputs_.clear();
  gradients_.clear();
  outside_.clear();
  outside_sorted_.clear();
  made_.clear();
  random_.clear();
  if (recording_ == nullptr) return;
  key_.mode->capture->destroy(recording_);
  recording_ = nullptr;
  if (settled_ && served_ < 2) restless("Step: the function's dependencies change with every call");
  served_ = 0;
}

}  // namespace tern
