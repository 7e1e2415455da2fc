#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tern/core/tensor.hpp"

namespace tern {

/// A training (or inference) step that a mode may record and replay. Called with input tensors, it runs the function
/// and returns its result. On a mode that can capture (cuda), the first call for each combination of input shapes runs
/// as it stands, the second records everything it queues, and from then on each call is one launch, bit for bit the
/// same work: inputs are copied into the recorded ones (nothing is copied when they are the same tensors), the
/// parameters, learning rate and random numbers have their present values. In other modes it just runs.
///
/// What must hold: the function does the same work each time, draws its data only from the inputs and from tensors that
/// live on, and reads no value on the host (a wait inside a recording is an Error that says so). The result of a
/// replay is overwritten by the next one: `clone` it to keep it.
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

  /// How many calls replayed a recording.
  std::int64_t replays() const;
  /// Forgets the recordings: after a change of what the function does.
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
