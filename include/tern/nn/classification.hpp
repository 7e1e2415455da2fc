#pragma once
// Classification figures, from counts on the host.

#include <cstdint>
#include <span>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::nn {

/// Figures of one class, or averages over classes. A quotient with denominator 0 is 0: the precision of a class that
/// was never predicted, the recall of a class without examples, the F1 of a class with no true positives.
struct ClassFigures {
  double precision = 0;      ///< the fraction of predictions of the class that are right
  double recall = 0;         ///< the fraction of examples of the class that were predicted as such
  double f1 = 0;             ///< 2 precision recall / (precision + recall)
  std::int64_t support = 0;  ///< number of examples of the class
};

struct Classification {
  std::vector<ClassFigures> classes = {};
  ClassFigures macro = {};     ///< mean over the classes that have examples or were predicted
  ClassFigures weighted = {};  ///< mean over the classes, weighted by their examples
  double accuracy = 0;         ///< 0 without examples
};

/// Figures of a confusion matrix int64 [classes, classes]: rows are true classes, columns predicted ones.
Classification classification(const Tensor& confusion);

/// The area under the receiver operating characteristic: the probability that a positive example scores higher than a
/// negative one; equal scores count one half. NaN unless there are both positive and negative examples.
double roc_auc(std::span<const double> scores, std::span<const std::int64_t> positive);

}  // namespace tern::nn
