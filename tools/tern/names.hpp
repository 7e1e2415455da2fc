#pragma once
// The names that options accept, and their meanings.

#include <functional>
#include <string>
#include <vector>

#include "tern/kernels/context.hpp"
#include "tern/optim/schedule.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::tool {

std::vector<std::string> dataset_names();
std::vector<std::string> net_names();
std::vector<std::string> activation_names();
std::vector<std::string> optimizer_names();
std::vector<std::string> cost_names();
/// Those that compare numbers.
std::vector<std::string> regression_cost_names();
std::vector<std::string> precision_names();
/// Indexed by data::Missing.
std::vector<std::string> missing_names();

/// "constant", "cosine[:WARMUP]", "step:EPOCHS[:FACTOR]" or "exponential:FACTOR", over `epochs` epochs. Throws
/// UsageError.
optim::Schedule parse_schedule(const std::string& text, std::int64_t epochs);

/// "balanced" is not a list: the result is empty. Throws UsageError for anything except that and positive numbers.
std::vector<double> parse_class_weights(const std::string& text);

/// The cost of logits [n, classes] for labels int64 [n]: the mean over the examples, weighted by class if there are
/// weights. Every cost except cross-entropy compares with one-hot rows. For a regression, the cost of values [n, 1] for
/// numbers [n, 1].
class Cost {
 public:
  explicit Cost(std::string name, const std::vector<double>& class_weights = {});
  Tensor operator()(const Tensor& logits, const Tensor& labels) const;

 private:
  std::string name_;
  Tensor weights_;  // float32 [classes], or undefined
};
/// How right outputs are, summed over the rows, float64 [1]: the number of rows with the right class (the largest one,
/// if labels are probabilities [n, classes]), or for a regression 1 - error^2, whose mean is R2 relative to mean 0 and
/// deviation 1.
Tensor count_right(const Tensor& outputs, const Tensor& labels);
/// The outputs per class, float32 [n, classes]: probabilities (softmax for cross-entropy, sigmoid for binary
/// cross-entropy), else the outputs themselves.
Tensor scores_of(const std::string& cost, const Tensor& logits);

}  // namespace tern::tool
