#pragma once

#include "tern/nn/module.hpp"

namespace tern::nn {

/// What a module costs for one input shape.
struct Summary {
  struct Layer {
    std::string name;         ///< "features.0"; empty for the module itself
    std::string description;  ///< "Conv2d(1, 20, 5x5)"
    Shape output;
    std::int64_t parameters = 0;  ///< elements of its own parameters
    std::int64_t flops = 0;       ///< of its products and convolutions, a multiply-add as two, without its children's
    std::int64_t output_bytes = 0;
  };
  std::string description;
  Shape input;
  std::vector<Layer> layers;  ///< in the order in which they ran
  std::int64_t parameters = 0, flops = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t output_bytes = 0;  ///< of all layers: what a training step keeps for backward

  /// A table for printing.
  std::string text() const;
};

/// Calls the module once for `input` (batch dimension included), in evaluation and without gradients. Its operators are
/// inferred (operators::Op::infer) and need neither time nor memory; only where the module looks at values they run, on
/// zeros. Restores its training switches afterwards.
Summary summary(const Module& module, const Shape& input);

}  // namespace tern::nn
