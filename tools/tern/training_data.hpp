#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples.hpp"
#include "settings.hpp"

namespace tern::tool {

/// Examples to train on, and held-out examples for the figures of the trained model.
struct TrainingData {
  Examples train, held_out;             // `held_out` is empty if there is none
  Blueprint blueprint;                  // its part about the data
  bool own_test_part = false;           // `held_out` is the test part that the set came with
  std::vector<std::string> notes = {};  // sentences about the data
  // The training examples without random crops and flips, if `train` applies them to photographs.
  std::shared_ptr<const data::ExampleSource> plain = {};

  /// Whether a test part was drawn: the validation examples are then part of `train`; see `divide`.
  bool three_way() const { return blueprint.test > 0; }
  /// The name of `held_out`: a set's own test part is also the validation part of every epoch.
  const char* held_out_name() const { return three_way() ? "test" : "validation"; }
};

/// Which examples of a set are read: those to test on, what a training held out, or those to train on where the set has
/// a test part of its own (else all).
enum class Part { all, held_out, train };

/// Copies what the settings hold out.
void take_parts(Blueprint& blueprint, const Settings& settings);
/// The held-out rows of a set, and the others, as the blueprint of a training says.
data::SplitRows divided(const std::vector<std::int64_t>& labels, std::int64_t classes, const Blueprint& blueprint);

/// Why --test-fraction and --folds draw nothing from a set with its own test part.
std::string own_test_part_words(const std::string& source);

/// Throws unless the model's training held out examples of this very set, which has that fingerprint.
void check_held_out(std::int64_t examples, const std::string& fingerprint, const Blueprint& blueprint,
                    const std::string& source);

}  // namespace tern::tool
