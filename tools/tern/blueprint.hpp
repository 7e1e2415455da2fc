#pragma once
// What a model is besides its weights: the network, the data it understands, how that data is scaled. It travels as
// JSON in the metadata of model files and checkpoints.

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
  bool table = false;                     // rows of numbers; else images
  bool regression = false;                // the target is a number, and there are no classes
  Shape input = {};                       // of one example: [inputs] or [channels, height, width]
  std::vector<std::string> classes = {};  // their names
  data::Encoding encoding = {};           // a table's features, by their names
  std::string missing = "refuse";         // what stands for their missing values
  bool header = false;                    // whether the names came from a header, or only count the columns
  std::string target = {};                // a table's class column by name or number; empty: the last
  std::vector<std::string> ignore = {};   // a table's columns that are left out
  data::Scaling scaling = {};             // a pair per channel of images in [0, 1]
  data::Scaling target_scaling = {};      // of a regression: its net says standardised values
  std::string source = {};                // where the training examples came from
  std::int64_t examples = 0;              // how many there were, with those held out
  std::string fingerprint = {};           // of these; empty where an older version wrote the model
  double validation = 0;                  // share that was held out, of all
  double test = 0;                        // the same of a test part, which is then what is tested
  std::int64_t folds = 0, fold = 0;       // or one of so many folds, from 1
  std::uint64_t split = 0;                // number of the draw that held it out

  // The network.
  std::string net = {};                   // "mlp", or one of the table of nets
  std::vector<std::int64_t> layers = {};  // of an mlp
  std::string activation = {};            // of an mlp
  double dropout = 0;                     // of an mlp
  // Of an mlp of a table: the size of the vector that stands for the categories of a column, 0 for an input each; empty
  // where no column has one.
  std::vector<std::int64_t> embedding = {};
  std::string cost = {};
  std::vector<double> class_weights = {};  // what each class counts in the cost; empty: all alike

  std::int64_t class_count() const { return static_cast<std::int64_t>(classes.size()); }
  /// Values that the net says of one example.
  std::int64_t outputs() const { return regression ? 1 : class_count(); }
  /// The target of a regression by a name that can be shown.
  std::string target_name() const { return header ? target : "target"; }
  /// Share of the examples that the figures of the model are of.
  double held_out() const {
    if (folds > 0) return 1 / static_cast<double>(folds);
    return test > 0 ? test : validation;
  }
  /// Values that the first layer of an mlp gets of one example.
  std::int64_t mlp_inputs() const;
  /// Values of one example.
  std::int64_t features() const { return element_count(input); }
};

/// "ant 0.5, bee 2": up to ten classes with their weights.
std::string weights_text(const Blueprint& blueprint);

Json to_json(const Blueprint& blueprint);
/// Throws FileError that begins with `file` for anything that no Blueprint can hold.
Blueprint blueprint_from(const Json& json, const std::string& file);

}  // namespace tern::tool
