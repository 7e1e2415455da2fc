#include "tern/nn/classification.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tern::nn {

namespace {

double quotient(double numerator, double denominator) { return denominator == 0 ? 0 : numerator / denominator; }

}  // namespace

Classification classification(const Tensor& confusion) {
  expects<ShapeError>(confusion.rank() == 2 && confusion.size(0) == confusion.size(1),
                      "classification: expected a confusion matrix [classes,classes], found ", confusion.shape());
  const std::vector<std::int64_t> counts = confusion.to_vector<std::int64_t>();
  const auto classes = static_cast<std::size_t>(confusion.size(0));
  Classification result;
  double total = 0, right = 0, seen = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    std::int64_t support = 0, predicted = 0;
    for (std::size_t other = 0; other < classes; ++other) {
      support += counts[c * classes + other];
      predicted += counts[other * classes + c];
    }
    const auto hits = static_cast<double>(counts[c * classes + c]);
    ClassFigures figures{.precision = quotient(hits, static_cast<double>(predicted)),
                         .recall = quotient(hits, static_cast<double>(support)),
                         .support = support};
    figures.f1 = quotient(2 * figures.precision * figures.recall, figures.precision + figures.recall);
    const auto weight = static_cast<double>(support);
    right += hits;
    total += weight;
    for (ClassFigures* mean : {&result.macro, &result.weighted}) {
      const double factor = mean == &result.weighted ? weight : 1;
      mean->precision += factor * figures.precision;
      mean->recall += factor * figures.recall;
      mean->f1 += factor * figures.f1;
      mean->support += support;
    }
    if (support > 0 || predicted > 0) ++seen;
    result.classes.push_back(figures);
  }
  for (ClassFigures* mean : {&result.macro, &result.weighted}) {
    const double denominator = mean == &result.weighted ? total : seen;
    mean->precision = quotient(mean->precision, denominator);
    mean->recall = quotient(mean->recall, denominator);
    mean->f1 = quotient(mean->f1, denominator);
  }
  result.accuracy = quotient(right, total);
  return result;
}

double roc_auc(std::span<const double> scores, std::span<const std::int64_t> positive) {
  expects<ShapeError>(scores.size() == positive.size(), "roc_auc: ", scores.size(), " scores, but ", positive.size(),
                      " labels");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const double score : scores) expects<NumericError>(score == score, "roc_auc: a score is NaN");
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double positives = 0, negatives = 0, pairs = 0;  // pairs in which the positive one scores higher
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double equal_positives = 0, equal_negatives = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      (positive[order[end]] != 0 ? equal_positives : equal_negatives) += 1;
    pairs += equal_positives * (negatives + equal_negatives / 2);
    positives += equal_positives;
    negatives += equal_negatives;
    begin = end;
  }
  if (positives == 0 || negatives == 0) return std::numeric_limits<double>::quiet_NaN();
  return pairs / (positives * negatives);
}

}  // namespace tern::nn
