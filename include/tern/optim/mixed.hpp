#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

/// float32 masters of 16-bit parameters. The optimiser changes the masters, so steps below half a unit of a weight's
/// last place add up; the network computes with the masters, rounded:
///
///     net.to(DType::bfloat16);
///     optim::MasterWeights masters{net.parameters()};
///     optim::SGD sgd{masters.parameters(), {.learning_rate = 0.1}};
///     ... loss.backward(); masters.load_gradients(); sgd.step(); masters.store(); net.zero_grad(); ...
///
/// Parameters of other dtypes are their own masters. (Micikevicius and others, 2018.)
class MasterWeights {
 public:
  explicit MasterWeights(std::vector<Tensor> weights);
  /// What an optimiser takes, and what a checkpoint should keep.
  const std::vector<Tensor>& parameters() const { return masters_; }
  /// Gives the masters the weights' gradients, in float32.
  void load_gradients();
  /// Rounds the masters into the weights.
  void store();

 private:
  friend class GradScaler;
  void load_gradients(const Tensor& factor);
  void take_up(std::size_t i);

  std::vector<Tensor> weights_, masters_;
  std::vector<std::uint64_t> versions_;  // of the weights when they were their masters, rounded
};

struct GradScalerOptions {
  double scale = 65536;          ///< the first one
  double growth = 2;             ///< of the scale, after `interval` finite steps in a row
  double backoff = 0.5;          ///< of the scale, after a step that was not finite
  std::int64_t interval = 2000;  ///< steps
};

/// Scales a loss so that float16 gradients neither vanish nor overflow, as torch.amp.GradScaler does. A step whose
/// gradients are not all finite changes nothing but the scale. Scale and count live on the device: the host never waits
/// for them, and a recorded Step replays them.
///
///     scaler.scale(loss).backward(); scaler.step(masters, sgd); net.zero_grad();
class GradScaler {
 public:
  /// Throws Error unless growth > 1, 0 < backoff < 1, scale > 0 and interval >= 1.
  explicit GradScaler(const GradScalerOptions& options = {});
  /// loss times the scale, in float32 at least.
  Tensor scale(const Tensor& loss) const;
  /// A scaled loss divided by the scale. Call it before `step`, which changes the scale.
  Tensor unscale(const Tensor& scaled) const;
  /// Loads the gradients, divided by the scale, steps, and stores the weights, if all gradients are finite. A momentum
  /// that the first step would have made is 0 if that step was skipped. Adapts the scale. `change` (may be empty) sees
  /// the loaded gradients before the step, to clip them.
  void step(MasterWeights& weights, Optimizer& optimizer, const std::function<void()>& change = {});
  /// The current scale. The host waits for it.
  double value() const { return scale_.item(); }

  /// "scale" and "finite_steps", sharing the elements.
  nn::State state() const;
  /// See nn::load_tensors.
  void load_state(const nn::State& state);

 private:
  GradScalerOptions options_;
  Tensor scale_, finite_steps_;
};

}  // namespace tern::optim
