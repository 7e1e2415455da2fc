#pragma once
// Where examples come from: a CSV file, a folder, or a set by name.

#include <string>
#include <vector>

#include "examples.hpp"
#include "settings.hpp"

namespace tern::tool {

/// Examples to train on, and those that the figures of the trained model are of.
struct TrainingData {
  Examples train, held_out;             // `held_out` is empty when nothing is
  Blueprint blueprint;                  // its part about the data
  bool own_test_part = false;           // `held_out` is the test part that the set came with
  std::vector<std::string> notes = {};  // sentences about the data
  // The training examples neither cropped nor mirrored at random, where `train` does that to photographs.
  std::shared_ptr<const data::ExampleSource> plain = {};

  /// Whether a test part was drawn: the validation examples are then a part of `train`; see `divide`.
  bool three_way() const { return blueprint.test > 0; }
  /// What `held_out` is: a test part of its own is validated on in every epoch.
  const char* held_out_name() const { return three_way() ? "test" : "validation"; }
};

/// Throws FileError with the place, UsageError when the settings make no sense.
TrainingData load_training_data(const Settings& settings);

/// Tells what was read apart: the examples, which of them are held out, and how they are encoded.
std::string fingerprint_of(const TrainingData& data);

/// Which examples of a set are tested.
enum class Part { all, held_out };

/// The examples of `dataset` as the model of `blueprint` takes them. A set that comes with a test part gives that part.
/// With `labelled` false a table need not have the class column: labels are then undefined.
Examples load_test_data(const Settings& settings, const Blueprint& blueprint, Part part, bool labelled);

/// What the settings hold out.
void take_parts(Blueprint& blueprint, const Settings& settings);
/// The rows of a set that are held out, and the others, as the blueprint of a training says.
data::SplitRows divided(const std::vector<std::int64_t>& labels, std::int64_t classes, const Blueprint& blueprint);

/// Why --test-fraction and --folds draw nothing from a set that comes with a test part.
std::string own_test_part_words(const std::string& source);

/// Throws unless the model's training held examples out of this very set, which has that fingerprint.
void check_held_out(std::int64_t examples, const std::string& fingerprint, const Blueprint& blueprint,
                    const std::string& source);

}  // namespace tern::tool
