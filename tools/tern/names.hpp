#pragma once
// The names that options accept, and what they stand for.

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
/// By the numbers of data::Missing.
std::vector<std::string> missing_names();

/// "constant", "cosine[:WARMUP]", "step:EPOCHS[:FACTOR]" or "exponential:FACTOR", over `epochs` epochs. Throws
/// UsageError.
optim::Schedule parse_schedule(const std::string& text, std::int64_t epochs);

/// "balanced" is no list, and empty. Throws UsageError for anything but that and numbers above 0.
std::vector<double> parse_class_weights(const std::string& text);

/// The cost of logits [n, classes] for labels int64 [n]: the mean over the examples, each by the weight of its class
/// where there are weights. Every cost but cross-entropy compares with one-hot rows. Of a regression, that of values
/// [n, 1] for numbers [n, 1].
class Cost {
 public:
  explicit Cost(std::string name, const std::vector<double>& class_weights = {});
  Tensor operator()(const Tensor& logits, const Tensor& labels) const;

 private:
  std::string name_;
  Tensor weights_;  // float32 [classes], or undefined
};
/// How right outputs are, summed over the rows, float64 [1]: how many rows have their class (or most of
/// it, where labels are shares [n, classes]), or of a regression 1 - error^2, whose mean is R2 beside a mean of 0 and a
/// deviation of 1.
Tensor count_right(const Tensor& outputs, const Tensor& labels);
/// What the outputs say of each class, float32 [n, classes]: probabilities (softmax for cross-entropy, sigmoid for
/// binary cross-entropy), else the outputs themselves.
Tensor scores_of(const std::string& cost, const Tensor& logits);

}  // namespace tern::tool
