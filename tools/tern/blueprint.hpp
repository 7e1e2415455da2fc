#pragma once
// The description of a model besides its weights: the network, the data it accepts, and the scaling of that data. It is
// stored as JSON in the metadata of model files and checkpoints.

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "tern/core/shape.hpp"
#include "tern/data/encoding.hpp"
#include "tern/data/scaling.hpp"

namespace tern::tool {

struct Blueprint {
  // The data.
  bool table = false;                     // rows of numbers; otherwise images
  bool regression = false;                // the target is a number, and there are no classes
  Shape input = {};                       // of one example: [inputs] or [channels, height, width]
  std::vector<std::string> classes = {};  // their names
  data::Encoding encoding = {};           // a table's features, by name
  std::string missing = "refuse";         // the replacement of their missing values
  bool header = false;                    // whether the names came from a header, or only count the columns
  std::string target = {};                // a table's class column by name or number; empty: the last
  std::vector<std::string> ignore = {};   // a table's ignored columns
  data::Scaling scaling = {};             // one pair per channel of images in [0, 1]
  data::Scaling target_scaling = {};      // for a regression: its net returns standardised values
  std::string source = {};                // where the training examples came from
  std::int64_t examples = 0;              // their number, including those held out
  std::string fingerprint = {};           // of these; empty if an older version wrote the model
  double validation = 0;                  // fraction of all that was held out
  double test = 0;                        // the same for a test part, which is then what is tested
  std::int64_t folds = 0, fold = 0;       // or one of this many folds, from 1
  std::uint64_t split = 0;                // number of the draw that held it out

  // The network.
  std::string net = {};                   // "mlp", "onnx" (the file has a graph), or a name in the table of nets
  std::vector<std::int64_t> layers = {};  // of an mlp
  std::string activation = {};            // of an mlp
  double dropout = 0;                     // of an mlp
  // For an mlp of a table: the size of the vector that replaces the categories of a column, 0 for one-hot inputs; empty
  // if no column has a vector.
  std::vector<std::int64_t> embedding = {};
  std::string cost = {};
  std::vector<double> class_weights = {};  // each class's weight in the cost; empty: all equal

  std::int64_t class_count() const { return static_cast<std::int64_t>(classes.size()); }
  /// Number of the net's outputs for one example.
  std::int64_t outputs() const { return regression ? 1 : class_count(); }
  /// The target of a regression by a printable name.
  std::string target_name() const { return header ? target : "target"; }
  /// Fraction of the examples that the model's figures come from.
  double held_out() const {
    if (folds > 0) return 1 / static_cast<double>(folds);
    return test > 0 ? test : validation;
  }
  /// Number of inputs of an mlp's first layer for one example.
  std::int64_t mlp_inputs() const;
  /// Number of values of one example.
  std::int64_t features() const { return element_count(input); }
};

/// "ant 0.5, bee 2": up to ten classes with their weights.
std::string weights_text(const Blueprint& blueprint);

}  // namespace tern::tool
