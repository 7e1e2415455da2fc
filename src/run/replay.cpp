// What a Plan does in every call once it has a recording.

#include <algorithm>
#include <atomic>

#include "modes/observed.hpp"
#include "run/plan.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/shape.hpp"

namespace tern {

void copy_view(Tensor to, Tensor from) {
  const NoGrad no_grad;
  for (int i = 0; i < to.rank() && !to.is_contiguous(); ++i)
    if (to.strides()[i] == 0 && to.shape()[i] > 1) {
      to = to.slice(i, 0, 1);
      from = from.slice(i, 0, 1);
    }
  to.copy_(from);
}

namespace {

// The elements of a host tensor that is written again for each call go straight to the recording's; its own copy in the
// memory stays stale. Returns whether they did.
bool renew(const Tensor& to, const Tensor& from, Scope& scope) {
  Memory& memory = *scope.context.memory;
  Storage& source = from.storage();
  const bool rewritten = source.pointer_in(memory) != nullptr && !source.valid_in(memory);
  if (!rewritten || memory.host_accessible() || !source.valid_in(host_memory()) || observed()) return false;
  if (!from.is_contiguous() || !to.is_contiguous() || from.dtype() != to.dtype() || from.shape() != to.shape())
    return false;
  const std::size_t size = size_of(from.dtype()), bytes = static_cast<std::size_t>(from.numel()) * size;
  if (bytes != to.storage().bytes()) return false;
  const auto* const bytes_of_host = static_cast<const std::byte*>(source.read_host());
  memory.copy_in(to.storage().write(scope), bytes_of_host + static_cast<std::size_t>(from.offset()) * size, bytes,
                 scope.context.stream);
  return true;
}

}  // namespace

// A replay overwrites an earlier call's result, so this returns true while the result still has handles; a new
// recording then returns copies.
bool Plan::held(const std::vector<Tensor>& inputs) {
  bool any = false;
  for (const Made& made : made_) {
    if (made.copied) continue;
    long handles = 0;
    bool held = false;
    const auto look_at = [&](const Tensor& handle, bool bound) {
      if (!handle.defined()) return;
      ++handles;
      held |= handle.handles() > (bound ? 2 : 1);
    };
    for (const std::size_t position : made.gradients) {
      const Gradient& gradient = gradients_[position];
      const auto& present = leaf_of(gradient, inputs).body()->gradient;
      look_at(gradient.after.handle, present != nullptr && present->is(gradient.after.handle));
    }
    for (const std::size_t position : made.results) look_at(results_[position].handle, false);
    if (!held && made.storage.use_count() == 1 + handles) continue;
    any = true;
    copies_gradients_ |= !made.gradients.empty();
    copies_results_ |= !made.results.empty();
  }
  // Pairs with the releases of former holders.
  std::atomic_thread_fence(std::memory_order_acquire);
  return any;
}

// Whether tensors that the recording holds separately share one storage in this call, part of which it writes.
bool Plan::overlaps(const std::vector<Tensor>& inputs) const {
  const auto meets_outside = [&](const Storage& storage, bool written) {
    const auto found = std::ranges::lower_bound(outside_sorted_, &storage, {}, &std::pair<const Storage*, bool>::first);
    return found != outside_sorted_.end() && found->first == &storage && (written || found->second);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (meets_outside(inputs[i].storage(), inputs_[i].written)) return true;
    for (std::size_t j = 0; j < i; ++j)
      if (&inputs[i].storage() == &inputs[j].storage() && !inputs[i].is(inputs[j]) &&
          (inputs_[i].written || inputs_[j].written))
        return true;
  }
  for (const Gradient& gradient : gradients_) {
    if (!gradient.recorded.defined()) continue;
    const Storage& present = leaf_of(gradient, inputs).grad().storage();
    if (meets_outside(present, gradient.written)) return true;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (&inputs[i].storage() == &present && (gradient.written || inputs_[i].written)) return true;
    for (const Gradient& other : gradients_)
      if (gradient.written && &other != &gradient && other.recorded.defined() &&
          &leaf_of(other, inputs).grad().storage() == &present)
        return true;
  }
  return false;
}

// Updates inputs, gradients, parameters and random positions. Returns false if the recording is no longer valid.
bool Plan::prepare(const std::vector<Tensor>& inputs, Scope& scope) {
  for (const Random& random : random_)
    if (random.generator->seed() != random.seed) return false;
  for (const Outside& outside : outside_) {
    if (outside.storage->roles() != outside.roles) return false;
    if ((outside.written ? outside.storage->update(scope) : outside.storage->read(scope)) != outside.pointer)
      return false;
  }
  for (const Made& made : made_) made.storage->update(scope);
  // The launch uses these unseen by the tensors; another thread's stream may have used them last.
  const auto use = [&](const Tensor& recorded, bool written) {
    written ? recorded.storage().update(scope) : recorded.storage().read(scope);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Input& input = inputs_[i];
    if (key_.inputs[i].same_tensor < i) continue;
    use(input.recorded, input.written);
    const Storage& source = inputs[i].storage();
    const std::shared_ptr<Storage> known = input.copied_from.lock();
    const bool same = known && known.get() == &source && input.copied_version == source.version() &&
                      input.copied_offset == inputs[i].offset();
    if (same) continue;
    if (!renew(input.recorded, inputs[i], scope)) copy_view(input.recorded, inputs[i]);
    input.copied_from = inputs[i].shared_storage();
    input.copied_version = source.version();
    input.copied_offset = inputs[i].offset();
  }
  for (const Gradient& gradient : gradients_) {
    if (!gradient.recorded.defined()) continue;
    use(gradient.recorded, gradient.written);
    const Tensor& present = leaf_of(gradient, inputs).grad();
    if (present.shared_storage() != gradient.recorded.shared_storage()) copy_view(gradient.recorded, present);
  }
  for (const Random& random : random_) {
    const std::uint64_t position = random.generator->position();
    scope.context.memory->copy_in(random.counter.storage().write(scope), &position, sizeof position,
                                  scope.context.stream);
  }
  return true;
}

std::vector<Tensor> Plan::replay(const std::vector<Tensor>& inputs, Scope& scope) {
  launch([&] { key_.mode->capture->launch(recording_, scope.context.stream); }, 1);
  bring_back(inputs, scope);
  std::vector<Tensor> results;
  results.reserve(results_.size());
  for (View& view : results_) results.push_back(hand_out(view, inputs));
  for (Made& made : made_)
    if (made.copied) made.copy.reset();
  return results;
}

void Plan::launch(const std::function<void()>& queue, std::int64_t times) {
  if (observed())
    observe("step replay", queue);
  else
    queue();
  undo_.clear();
  replayed_ = times;
  if (served_ < 2 && served_ + times >= 2) restless_ = 0;
  served_ += times;
  for (const Random& random : random_) random.generator->skip(random.consumed * static_cast<std::uint64_t>(times));
}

// Copies what the recording changed to where the program expects it.
void Plan::bring_back(const std::vector<Tensor>& inputs, Scope& scope) {
  for (Made& made : made_) {
    if (!made.copied) continue;
    made.copy = std::make_shared<Storage>(made.storage->bytes());
    scope.context.memory->copy(made.copy->write(scope), made.storage->read(scope), made.storage->bytes(),
                               scope.context.stream);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].written) continue;
    copy_view(inputs[i].detach(), inputs_[i].recorded);
    inputs_[i].copied_from.reset();
  }
  for (Gradient& gradient : gradients_) {
    const Tensor& leaf = leaf_of(gradient, inputs);
    const auto& present = leaf.body()->gradient;
    if (gradient.written && present->shared_storage() != gradient.recorded.shared_storage())
      copy_view(*present, gradient.recorded);
    if (!gradient.replaced) continue;
    // Usually it is there already.
    if (present != nullptr && present->is(gradient.after.handle)) continue;
    Tensor(leaf).set_grad(hand_out(gradient.after, inputs));
  }
}

Tensor Plan::hand_out(View& view, const std::vector<Tensor>& inputs) {
  const auto make = [&](const std::shared_ptr<Storage>& storage, std::int64_t offset) {
    return Tensor(storage, view.dtype, view.shape, view.strides, offset + view.offset);
  };
  switch (view.source) {
    case Source::none:
      return {};
    case Source::input:
      return make(inputs[view.index].shared_storage(), inputs[view.index].offset());
    case Source::gradient: {
      const Tensor& present = leaf_of(gradients_[view.index], inputs).grad();
      return make(present.shared_storage(), present.offset());
    }
    case Source::outside:
      return make(view.outside, 0);
    case Source::made:
      break;
  }
  const Made& made = made_[view.index];
  if (made.copied) return make(made.copy, 0);
  // A new tensor if the last one has a gradient, or requires one.
  const auto fresh = [](const Tensor& handle) {
    return handle.defined() && !handle.requires_grad() && handle.body()->gradient == nullptr;
  };
  if (!fresh(view.handle)) view.handle = make(made.storage, 0);
  return view.handle;
}

}  // namespace tern
