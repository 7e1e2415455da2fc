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

/// What a model says of a set of examples.
struct Prediction {
  std::int64_t classes = 0;
  std::vector<float> scores = {};            // [n, classes]
  bool probabilities = false;                // whether those of an example sum to 1
  std::vector<std::int64_t> predicted = {};  // [n]
  std::vector<std::int64_t> actual = {};     // [n], or empty without labels
  std::vector<std::int64_t> rows = {};       // [n], the examples: those that cannot be read are missing
  std::vector<std::string> unreadable = {};  // the files of these, where they are photographs of a folder
  // Of a regression, in the target's unit; the vectors above but for the rows are empty then.
  std::vector<double> values = {};  // [n], what is predicted
  std::vector<double> truths = {};  // [n], what is, or empty without a target
  double loss = 0;                  // mean cost; only with labels; of a regression of standardised values
  float score_of(std::size_t row) const {
    return scores[row * static_cast<std::size_t>(classes) + static_cast<std::size_t>(predicted[row])];
  }
};

/// Runs the net of `blueprint` in evaluation mode. The ranks of `group` share the batches out, and all have the whole
/// prediction, with the bits of one rank: a collective call.
Prediction predict(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                   const parallel::Group& group = parallel::Group());

/// How right it is. Of a regression there is no confusion, and no figures of classes.
struct Evaluation {
  std::int64_t examples = 0;
  double loss = 0;
  Tensor confusion = {};  // int64 [classes, classes]: rows are what is
  nn::Classification figures = {};
  std::optional<double> auc = {};                   // of two classes, the second being the positive one
  std::optional<nn::Calibration> calibration = {};  // where the scores are probabilities
  std::optional<nn::Regression> regression = {};
};
Evaluation evaluate(const Prediction& prediction);

/// As a table for people, as JSON, as CSV with a row per class, or per figure of a regression.
std::string as_table(const Evaluation& evaluation, const Blueprint& blueprint);
Json as_json(const Evaluation& evaluation, const Blueprint& blueprint);
std::string as_csv(const Evaluation& evaluation, const Blueprint& blueprint);
/// Six digits, as many as a float32 is sure of.
std::string number_text(double value);
/// A field of a CSV file, in quotes where it needs them.
std::string csv_field(const std::string& text);

}  // namespace tern::tool
