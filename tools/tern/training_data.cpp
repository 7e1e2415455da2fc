#include "training_data.hpp"

#include "errors.hpp"
#include "tern/data/dataset.hpp"

namespace tern::tool {

void take_parts(Blueprint& blueprint, const Settings& settings) {
  blueprint.folds = settings.folds;
  blueprint.fold = settings.fold;
  blueprint.validation = settings.folds > 0 ? 0 : settings.validation.value_or(0.2);
  blueprint.test = settings.test_fraction;
}

data::SplitRows divided(const std::vector<std::int64_t>& labels, std::int64_t classes, const Blueprint& blueprint) {
  if (blueprint.folds > 0)
    return data::fold_rows(labels, classes, blueprint.folds, blueprint.fold - 1, blueprint.split);
  return data::split_rows(labels, classes, blueprint.held_out(), blueprint.split);
}

std::string own_test_part_words(const std::string& source) {
  return source +
         " has its own test part: instead of --test-fraction and --folds, --validation 0.1 holds out some of the "
         "others, and tern test evaluates the test part";
}

void check_held_out(std::int64_t examples, const std::string& fingerprint, const Blueprint& blueprint,
                    const std::string& source) {
  expects<UsageError>(blueprint.held_out() > 0,
                      "--held-out: the training of this model held out nothing from its data set");
  expects<FileError>(examples == blueprint.examples, source, ": found ", examples, " examples, expected the ",
                     blueprint.examples, " of the training, of which some were held out");
  expects<FileError>(blueprint.fingerprint.empty() || fingerprint == blueprint.fingerprint, source, ": found ",
                     examples,
                     " examples that are not those of the training, or not in their order: the held-out ones are "
                     "unknown; leave out --held-out to test on all");
}

}  // namespace tern::tool
