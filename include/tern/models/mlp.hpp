#pragma once

#include "tern/nn/sequential.hpp"
#include "tern/operators/activation.hpp"

namespace tern::models {

struct MlpOptions {
  std::vector<std::int64_t> layers = {784, 196, 196, 196, 10};  ///< sizes from the input to the number of classes
  Activation activation = Activation::relu;                     ///< between the layers
  double dropout = 0;                                           ///< after each hidden activation; 0: none
};

/// Linear layers with an activation between them: a Sequential with torch's parameter names. Inputs of more than two
/// dimensions are flattened.
class Mlp : public nn::Sequential {
 public:
  explicit Mlp(const MlpOptions& options = {}, std::uint64_t seed = 0);
  Tensor forward(const Tensor& x) const override;
  /// The mean cross-entropy of the logits; labels [N] int64.
  Tensor loss(const Tensor& x, const Tensor& labels) const;
  std::string describe() const override { return "Mlp"; }
};

/// 784-h-h-h-10 with h = 196, 392 and 784.
Mlp mlp_small(std::uint64_t seed = 0);
Mlp mlp_medium(std::uint64_t seed = 0);
Mlp mlp_big(std::uint64_t seed = 0);

}  // namespace tern::models
