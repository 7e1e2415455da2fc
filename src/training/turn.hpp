#pragma once
// When the losses of held-out examples have turned.

#include <cstdint>
#include <span>

#include "tern/training/trainer.hpp"

namespace tern::training {

/// Whether the losses have turned, so that training may end although each is still within its error of the least one:
/// their means over patience / 2 epochs were least at epoch k, which is `patience` epochs ago and a third of the epochs
/// so far or less, and have since grown by more than a tenth of the standard error. A later end than the least mean
/// itself, which comes early as often as late: too few epochs cost more than too many.
bool turned(std::span<const StoppingLoss> epochs, std::int64_t patience);

}  // namespace tern::training
