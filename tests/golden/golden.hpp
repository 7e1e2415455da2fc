#pragma once
// Golden data of make_golden.py against what this library computes from the same weights and images.

#include <map>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::testing {

/// How far tensors are from the golden ones.
struct Difference {
  double largest = 0;  ///< of max |ours - golden| / max |golden|, over the tensors
  std::string where;   ///< the name of that tensor
};

struct Comparison {
  std::string net;
  std::int64_t parameters = 0;
  std::vector<double> losses;  ///< ours
  Difference logits, loss, gradients;
  Difference weights, changes;  ///< after all steps: the state, and what the steps have changed in it
  /// The norm of what differs in all gradients, and in all changes, over the norm of the golden ones.
  double gradient_norm = 0, change_norm = 0;
};

/// Computes a golden file's run in the mode of the scope: the logits in evaluation, the steps in training.
Comparison compare_with_golden(const std::string& file);

}  // namespace tern::testing
