#pragma once
// How well classes were told apart, from counts that the host holds.

#include <cstdint>
#include <span>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::nn {

/// Figures of one class, or averages over classes. A quotient without a denominator is 0: the precision of a class that
/// was never predicted, the recall of one that has no examples, the F1 of one with neither right.
struct ClassFigures {
  double precision = 0;      ///< of those taken for the class, how many belong to it
  double recall = 0;         ///< of those that belong to the class, how many were taken for it
  double f1 = 0;             ///< 2 precision recall / (precision + recall)
  std::int64_t support = 0;  ///< how many belong to the class
};

struct Classification {
  std::vector<ClassFigures> classes = {};
  ClassFigures macro = {};     ///< mean over the classes that have examples or were predicted
  ClassFigures weighted = {};  ///< mean over the classes, each counting as often as it has examples
  double accuracy = 0;         ///< 0 without examples
};

/// Figures of a confusion matrix int64 [classes, classes]: rows are what is, columns what was predicted.
Classification classification(const Tensor& confusion);

/// The area under the receiver operating characteristic: the chance that a positive example has a higher score than a
/// negative one, equal scores counting half. NaN unless there are both positive and negative examples.
double roc_auc(std::span<const double> scores, std::span<const std::int64_t> positive);

}  // namespace tern::nn
