#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern {

/// A training or inference step that a mode may record and replay. Called with input tensors, it runs the function and
/// returns its result; a function of a list takes any number of tensors, and returns any number. A mode that can
/// capture (cuda) records it once two runs do the same work: in the second call, or in the third if the first one
/// created something that lasts, such as momenta. From then on each call is one launch with bitwise the same effect as
/// the function. It uses the current inputs, parameters, gradients, learning rate and random numbers, and changes
/// inputs, gradients and the random generator as the function does. In other modes the function just runs.
///
/// The cache key of a recording holds the scope, whether gradients are recorded, the inputs' dtypes, shapes, strides
/// and requires_grad, which leaves have a gradient, whether modules train, and the seeds. Each combination gets its own
/// recording. A function that cannot be replayed runs each time, and `unrecorded` says why.
///
/// Requirements: the function does the same work each time and takes its data only from the inputs and from tensors
/// that outlive the call. Other work on the host (counting, printing, its own variables) happens only when the function
/// runs; call `reset` after a change. The function may run twice in the call that finds that it cannot be recorded.
///
/// In every mode the result has no graph, so `backward` belongs inside the function, and later calls do not change an
/// earlier result. Steps nest: an inner one is part of the outer one's work. One thread at a time.
class Step {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /// Calls of a step may differ in the number of inputs; each number has a recording of its own.
  explicit Step(Function function);
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
  /// Throws Error if the function returns another number of tensors than one.
  Tensor run(const std::vector<Tensor>& inputs);
  std::vector<Tensor> run_all(const std::vector<Tensor>& inputs);

  /// A tensor that changes between the steps of a loop, such as a learning rate: step k finds values[k] in it.
  struct Change {
    Tensor tensor;  ///< contiguous
    Tensor values;  ///< [steps, shape of the tensor], of its dtype
  };
  /// A loop of steps: calls the function with each row (of the first dimension) of the inputs in turn, and returns the
  /// results as one tensor [steps, shape of a result], with the same bits as separate calls. For example an epoch over
  /// examples on the device, where each step gathers its own batch:
  ///
  ///     const Tensor order = randperm(n).slice(0, 0, steps * batch).reshape({steps, batch});
  ///     const Tensor losses = step.each(order);
  ///
  /// With Capture::loop a mode launches all steps at once, as soon as there is a recording. Otherwise each step is a
  /// call; so it is if a step changes its inputs, returns one or lets gradients add up. Expand an input that is the
  /// same in all steps: x.expand({steps, ...}). Throws ShapeError unless the inputs have the same number of rows, at
  /// least one, and all results one shape; AutogradError if an input requires a gradient.
  template <class... Inputs>
  Tensor each(const Inputs&... inputs) {
    return run_each({inputs...});
  }
  Tensor run_each(const std::vector<Tensor>& inputs, const std::vector<Change>& changes = {});

  /// How many calls replayed a recording; each step of a loop counts as one.
  std::int64_t replays() const;
  /// How many launches that took: fewer if loops ran.
  std::int64_t launches() const;
  /// Why the last call ran the function although the mode can record, and why the next call like it will, too. Empty if
  /// it was replayed, or may still be recorded.
  const std::string& unrecorded() const;
  /// In a Device{"auto"}: the mode that was fastest for calls like the last one; null until that is known, and in other
  /// devices.
  const Mode* chosen() const;
  /// Limits the number of recordings, initially 32; beyond it the least recently used one is dropped.
  void keep_recordings(std::int64_t most);
  /// Drops the recordings and the chosen modes: call it after a change of what the function does.
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
