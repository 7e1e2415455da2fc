#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples.hpp"
#include "model_file.hpp"
#include "tern/nn/calibration.hpp"
#include "tern/nn/classification.hpp"
#include "tern/nn/regression.hpp"
#include "tern/parallel/group.hpp"

namespace tern::tool {

/// A model's predictions for a set of examples.
struct Prediction {
  std::int64_t classes = 0;
  std::vector<float> scores = {};            // [n, classes]
  bool probabilities = false;                // whether those of an example sum to 1
  std::vector<std::int64_t> predicted = {};  // [n]
  std::vector<std::int64_t> actual = {};     // [n], or empty without labels
  std::vector<std::int64_t> rows = {};       // [n], the examples: unreadable ones are missing
  std::vector<std::string> unreadable = {};  // their files, if they are photographs of a folder
  // For a regression, in the target's unit; the vectors above except the rows are then empty.
  std::vector<double> values = {};  // [n], predicted values
  std::vector<double> truths = {};  // [n], true values, or empty without a target
  double loss = 0;                  // mean cost; only with labels; for a regression of standardised values
  float score_of(std::size_t row) const {
    return scores[row * static_cast<std::size_t>(classes) + static_cast<std::size_t>(predicted[row])];
  }
};

/// Runs the net of `blueprint` in evaluation mode. The ranks of `group` share the batches, and all get the whole
/// prediction, with the bits of one rank: a collective call.
Prediction predict(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                   const parallel::Group& group = parallel::Group());

/// The quality of predictions. A regression has no confusion matrix and no class figures.
struct Evaluation {
  std::int64_t examples = 0;
  double loss = 0;
  Tensor confusion = {};  // int64 [classes, classes]: rows are true classes
  nn::Classification figures = {};
  std::optional<double> auc = {};                   // for two classes; the second is the positive one
  std::optional<nn::Calibration> calibration = {};  // if the scores are probabilities
  std::optional<nn::Regression> regression = {};
};
Evaluation evaluate(const Prediction& prediction);

/// As a printed table, as JSON, as CSV with one row per class, or per figure of a regression.
std::string as_table(const Evaluation& evaluation, const Blueprint& blueprint);
Json as_json(const Evaluation& evaluation, const Blueprint& blueprint);
std::string as_csv(const Evaluation& evaluation, const Blueprint& blueprint);

}  // namespace tern::tool
