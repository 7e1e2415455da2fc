#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern {

/// A training (or inference) step that a mode may record and replay. Called with input tensors, it runs the function
/// and returns its result. In a mode that can capture (cuda) it is recorded once its runs do the same work, from the
/// second call on (the third, if the first one made something for those to come, such as momenta), and then each call
/// is one launch, bit for bit what the function does: inputs, parameters, gradients, learning rate and random numbers
/// have their present values, and what it changes (inputs, gradients, the place of a random generator) is changed. In
/// other modes it just runs.
///
/// The cache key of a recording: the scope, whether gradients are recorded, dtypes,
/// shapes, strides and requires_grad of the inputs, which leaves have a gradient, whether modules train, seeds. Another
/// combination gets a recording of its own. What cannot be replayed runs each time, and `unrecorded` says why.
///
/// What must hold: the function does the same work each time and draws its data only from the inputs and from tensors
/// that live on. What else it does on the host (counting, printing, numbers of its own) happens only when it runs: call
/// `reset` after a change. It may run a second time in the call that finds that it cannot be recorded.
///
/// In every mode the result has no graph, so `backward` belongs inside the function, and it stays as it is when the
/// Step is called again. Steps nest: an inner one is a part of the outer one's work. One thread at a time.
class Step {
 public:
  using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

  explicit Step(std::function<Tensor(const Tensor&)> function);
  explicit Step(std::function<Tensor(const Tensor&, const Tensor&)> function);
  explicit Step(std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> function);
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  template <class... Inputs>
  Tensor operator()(const Inputs&... inputs) {
    return run({inputs...});
  }
  Tensor run(const std::vector<Tensor>& inputs);

  /// A tensor that changes between the steps of a loop, such as a learning rate: step k finds values[k] in it.
  struct Change {
    Tensor tensor;  ///< contiguous
    Tensor values;  ///< [steps, shape of the tensor], of its dtype
  };
  /// The steps of a loop: calls the function with each row (of the first dimension) of the inputs, one after the other,
  /// and returns the results in one tensor [steps, shape of a result], with the same bits as calls one by one. For
  /// instance an epoch over examples that lie where the mode computes, of which each step gathers its own:
  ///
  ///     const Tensor order = randperm(n).slice(0, 0, steps * batch).reshape({steps, batch});
  ///     const Tensor losses = step.each(order);
  ///
  /// A mode that has Capture::loop launches the steps as one once there is a recording, without the host in between;
  /// elsewhere, and where a step changes its inputs, hands one out or lets gradients add up, each is a call. An input
  /// that is the same in all steps is expanded: x.expand({steps, ...}). Throws ShapeError unless the inputs have the
  /// same number of rows, at least one, and all results one shape; AutogradError where an input requires a gradient.
  template <class... Inputs>
  Tensor each(const Inputs&... inputs) {
    return run_each({inputs...});
  }
  Tensor run_each(const std::vector<Tensor>& inputs, const std::vector<Change>& changes = {});

  /// How many calls replayed a recording; each step of a loop is one.
  std::int64_t replays() const;
  /// How many launches these were: fewer where loops ran.
  std::int64_t launches() const;
  /// Why the last call ran the function although the mode can record, and the next one of its kind will; empty if it
  /// was replayed, or may still be recorded.
  const std::string& unrecorded() const;
  /// In a Device{"auto"}: the mode that was the fastest for calls like the last one; null while that is being found
  /// out, and in other devices.
  const Mode* chosen() const;
  /// Bounds the number of recordings, 32 at first: beyond it the one that was used longest ago is forgotten.
  void keep_recordings(std::int64_t most);
  /// Forgets the recordings, and the modes that were chosen: after a change of what the function does.
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
