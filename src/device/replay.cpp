// What a Plan does at every call once it has a recording.

#include <algorithm>
#include <atomic>

#include "device/plan.hpp"
#include "device/profiler.hpp"
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

// What an earlier call handed out is overwritten by a replay: not while somebody looks at it. True when somebody does;
// recorded anew, copies are handed out.
bool Plan::held(const std::vector<Tensor>& inputs) {
  bool any = false;
  for (std::size_t i = 0; i < made_.size(); ++i) {
    const Made& made = made_[i];
    if (made.copied) continue;
    long expected = 1;
    bool held = false;
    for (const std::size_t position : made.gradients) {
      const auto& present = leaf_of(gradients_[position], inputs).body()->gradient;
      if (present == nullptr || present->shared_storage() != made.storage) continue;
      held |= present->body().use_count() > 1;
      ++expected;
    }
    if (!held && made.storage.use_count() == expected) continue;
    any = true;
    copies_gradients_ |= !made.gradients.empty();
    copies_result_ |= result_.source == Source::made && result_.index == i;
  }
  // Who has let go did so before.
  std::atomic_thread_fence(std::memory_order_acquire);
  return any;
}

// Whether tensors that the recording holds apart are one storage in this call, of which it writes a part.
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

// Brings inputs, gradients, parameters and random positions up to date. False when the recording does not hold any
// more.
bool Plan::prepare(const std::vector<Tensor>& inputs, Scope& scope) {
  for (const Random& random : random_)
    if (random.generator->seed() != random.seed) return false;
  for (const Outside& outside : outside_) {
    if (outside.storage->roles() != outside.roles) return false;
    if ((outside.written ? outside.storage->update(scope) : outside.storage->read(scope)) != outside.pointer)
      return false;
  }
  for (const Made& made : made_) made.storage->update(scope);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Input& input = inputs_[i];
    if (key_.inputs[i].same_tensor < i) continue;
    const Storage& source = inputs[i].storage();
    const std::shared_ptr<Storage> known = input.copied_from.lock();
    const bool same = known && known.get() == &source && input.copied_version == source.version() &&
                      input.copied_offset == inputs[i].offset();
    if (same) continue;
    copy_view(input.recorded, inputs[i]);
    input.copied_from = inputs[i].shared_storage();
    input.copied_version = source.version();
    input.copied_offset = inputs[i].offset();
  }
  for (const Gradient& gradient : gradients_) {
    if (!gradient.recorded.defined()) continue;
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

Tensor Plan::replay(const std::vector<Tensor>& inputs, Scope& scope) {
  {
    const ProfileSpan span("step replay");
    key_.mode->capture->launch(recording_, scope.context.stream);
  }
  undo_.clear();
  replayed_ = true;
  if (++served_ == 2) restless_ = 0;
  for (const Random& random : random_) random.generator->skip(random.consumed);
  for (Made& made : made_) {
    made.handed_out = made.storage;
    if (!made.copied) continue;
    made.handed_out = std::make_shared<Storage>(made.storage->bytes());
    scope.context.memory->copy(made.handed_out->write(scope), made.storage->read(scope), made.storage->bytes(),
                               scope.context.stream);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].written) continue;
    copy_view(inputs[i].detach(), inputs_[i].recorded);
    inputs_[i].copied_from.reset();
  }
  for (const Gradient& gradient : gradients_) {
    Tensor leaf = leaf_of(gradient, inputs);
    const auto& present = leaf.body()->gradient;
    if (gradient.written && present->shared_storage() != gradient.recorded.shared_storage())
      copy_view(*present, gradient.recorded);
    if (!gradient.replaced) continue;
    const View& after = gradient.after;
    // Mostly it is there already.
    if (after.source == Source::made && present != nullptr &&
        present->shared_storage() == made_[after.index].handed_out && present->offset() == after.offset &&
        present->strides() == after.strides)
      continue;
    leaf.set_grad(hand_out(after, inputs));
  }
  Tensor result = hand_out(result_, inputs);
  for (Made& made : made_) made.handed_out.reset();
  return result;
}

Tensor Plan::hand_out(const View& view, const std::vector<Tensor>& inputs) const {
  std::shared_ptr<Storage> storage = view.outside;
  std::int64_t offset = view.offset;
  switch (view.source) {
    case Source::none:
      return {};
    case Source::input:
      storage = inputs[view.index].shared_storage();
      offset += inputs[view.index].offset();
      break;
    case Source::gradient: {
      const Tensor& present = leaf_of(gradients_[view.index], inputs).grad();
      storage = present.shared_storage();
      offset += present.offset();
      break;
    }
    case Source::outside:
      break;
    case Source::made:
      storage = made_[view.index].handed_out;
      break;
  }
  return {std::move(storage), view.dtype, view.shape, view.strides, offset};
}

}  // namespace tern
