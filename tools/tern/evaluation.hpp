#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples.hpp"
#include "model_file.hpp"
#include "tern/nn/classification.hpp"

namespace tern::tool {

/// What a model says of a set of examples.
struct Prediction {
  std::int64_t classes = 0;
  std::vector<float> scores = {};            // [n, classes]
  std::vector<std::int64_t> predicted = {};  // [n]
  std::vector<std::int64_t> actual = {};     // [n], or empty without labels
  std::vector<std::int64_t> rows = {};       // [n], the examples: those that cannot be read are missing
  double loss = 0;                           // mean cost; only with labels
  float score_of(std::size_t row) const {
    return scores[row * static_cast<std::size_t>(classes) + static_cast<std::size_t>(predicted[row])];
  }
};

/// Runs the net of `blueprint` in evaluation mode.
Prediction predict(nn::Module& net, const Blueprint& blueprint, const Examples& examples);

/// How right it is.
struct Evaluation {
  std::int64_t examples = 0;
  double loss = 0;
  Tensor confusion = {};  // int64 [classes, classes]: rows are what is
  nn::Classification figures = {};
  std::optional<double> auc = {};  // of two classes, the second being the positive one
};
Evaluation evaluate(const Prediction& prediction);

/// As a table for people, as JSON, as CSV with a row per class.
std::string as_table(const Evaluation& evaluation, const std::vector<std::string>& classes);
Json as_json(const Evaluation& evaluation, const std::vector<std::string>& classes);
std::string as_csv(const Evaluation& evaluation, const std::vector<std::string>& classes);
/// A field of a CSV file, in quotes where it needs them.
std::string csv_field(const std::string& text);

}  // namespace tern::tool
