// The steps of a loop: one by one until there is a recording, then in one launch.

#include <algorithm>

#include "run/plan.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/shape.hpp"
#include "tern/tensor/create.hpp"

namespace tern {

namespace {

// The same in all steps.
bool is_constant(const Tensor& rows) { return rows.strides()[0] == 0; }

const std::byte* bytes_of(const Tensor& tensor, Scope& scope) {
  const auto* const first = static_cast<const std::byte*>(tensor.storage().read(scope));
  return first + static_cast<std::size_t>(tensor.offset()) * size_of(tensor.dtype());
}
std::byte* bytes_to_change(const Tensor& tensor, Scope& scope) {
  auto* const first = static_cast<std::byte*>(tensor.storage().update(scope));
  return first + static_cast<std::size_t>(tensor.offset()) * size_of(tensor.dtype());
}
std::size_t size_in_bytes(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
}

Tensor rows_like(const Tensor& row, std::int64_t count) {
  std::vector<std::int64_t> sizes{count};
  sizes.insert(sizes.end(), row.shape().begin(), row.shape().end());
  return empty(Shape(sizes), row.dtype());
}

}  // namespace

void StepLoop::keep(std::int64_t step, const Tensor& result) {
  if (step == 0 && result.defined()) results = rows_like(result, count);
  const bool returns = result.defined();
  expects<ShapeError>(returns == results.defined() && (!returns || result.shape() == results[step].shape()),
                      "Step: the results of a loop have one shape; step ", step, " returned ",
                      returns ? message(result.shape()) : "no tensor");
  const NoGrad no_grad;
  if (returns) results[step].copy_(result);
}

std::vector<Tensor> StepLoop::rows(std::int64_t step) const {
  std::vector<Tensor> found;
  found.reserve(inputs.size());
  for (const Tensor& input : inputs) found.push_back(input[step]);
  return found;
}

// Whether each step starts from the same state as the one before, except for what Capture::Loop copies.
bool Plan::can_loop(const StepLoop& loop) const {
  using Lists = Capture::Loop;
  if (!settled_ || results_.size() != 1) return false;
  const Source source = results_[0].source;
  if (source != Source::made && source != Source::none) return false;
  if (loop.inputs.size() + loop.changes.size() > Lists::most || random_.size() > Lists::most) return false;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].written) return false;
    if (!is_constant(loop.inputs[i]) && !loop.inputs[i].is_contiguous()) return false;
  }
  for (const Gradient& gradient : gradients_) {
    const bool before = gradient.recorded.defined();
    if (before && gradient.replaced) return false;
    // The steps after the first one would find a gradient.
    if (gradient.looked && !before && gradient.replaced && gradient.after.source != Source::none) return false;
  }
  const auto written = [&](const Tensor& tensor) {
    const auto found =
        std::ranges::lower_bound(outside_sorted_, &tensor.storage(), {}, &std::pair<const Storage*, bool>::first);
    return found != outside_sorted_.end() && found->first == &tensor.storage() && found->second;
  };
  for (const Step::Change& change : loop.changes) {
    const auto shares = [&](const Tensor& other) { return &other.storage() == &change.tensor.storage(); };
    if (written(change.tensor) || written(change.values) || std::ranges::any_of(loop.inputs, shares)) return false;
    if (std::ranges::any_of(loop.changes, shares, &Step::Change::values)) return false;
  }
  return true;
}

bool Plan::call_loop(StepLoop& loop, std::int64_t first, Scope& scope) {
  replayed_ = 0;
  overlap_.clear();
  if (!reason_.empty() || recording_ == nullptr || !can_loop(loop)) return false;
  const std::vector<Tensor> rows = loop.rows(first);
  if (held(rows)) return false;
  // The result is a contiguous row of the results.
  Tensor made;
  if (const View& result = results_[0]; result.source == Source::made) {
    made = Tensor(made_[result.index].storage, result.dtype, result.shape, result.strides, result.offset);
    if (!loop.results.defined()) loop.results = rows_like(made, loop.count);
    const bool fits = made.is_contiguous() && made.shape() == loop.results[first].shape();
    if (!fits || made.dtype() != loop.results.dtype()) return false;
  } else if (loop.results.defined()) {
    return false;
  }
  if (overlaps(rows) || !prepare(rows, scope)) return false;
  Capture::Loop work{.count = loop.count - first};
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (key_.inputs[i].same_tensor < i || is_constant(loop.inputs[i])) continue;
    // One copy of the row exists already: the recording's own.
    auto* const to = const_cast<std::byte*>(bytes_of(inputs_[i].recorded, scope));
    if (rows[i].numel() > 0) work.in.push_back({to, bytes_of(rows[i], scope), size_in_bytes(rows[i])});
    inputs_[i].copied_from.reset();
  }
  for (const Step::Change& change : loop.changes)
    work.in.push_back(
        {bytes_to_change(change.tensor, scope), bytes_of(change.values[first], scope), size_in_bytes(change.tensor)});
  if (made.defined()) {
    if (first == 0) loop.results.storage().write(scope);
    work.out.push_back({bytes_to_change(loop.results[first], scope), bytes_of(made, scope), size_in_bytes(made)});
  }
  for (const Random& random : random_)
    work.counters.push_back({random.counter.storage().update(scope), random.consumed});
  made = {};
  launch([&] { key_.mode->capture->loop(recording_, work, scope.context.stream); }, work.count);
  bring_back(rows, scope);
  for (Made& kept : made_) kept.copy.reset();
  return true;
}

}  // namespace tern
