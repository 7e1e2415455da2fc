#include "tune_data.hpp"

#include <algorithm>
#include <map>

#include "errors.hpp"
#include "nets.hpp"
#include "text.hpp"

namespace tern::tool {

TrialData load_trials(TunePlan& plan, const Settings& base) {
  TrialData data;
  std::map<std::string, std::shared_ptr<const TrainingData>> known;
  for (const Trial& trial : plan.trials) {
    Settings settings = base;
    const Options options = training_options(settings);
    for (const auto& [name, value] : trial.values) set_option(options, name, value);
    settings.resume = true;  // from rung to rung
    settings.quiet = true;
    settings.model.clear();
    std::string key;
    for (const Option& option : options)
      if (option.group == "Data") key += option.name + "=" + option.get().dump() + "\n";
    key += "embedding=" + settings.embedding + "\n";  // the columns that get a vector are found with the data
    // A folder's pictures have the net's preferred size.
    key += std::to_string(natural_size(settings));
    auto& loaded = known[key];
    if (!loaded) {
      TrainingData fresh = load_training_data(settings);
      for (Examples* part : {&fresh.train, &fresh.held_out})
        if (part->memory.images.defined()) part->memory.images = scaled(part->memory.images, fresh.blueprint);
      loaded = std::make_shared<const TrainingData>(std::move(fresh));
    }
    data.push_back(loaded);
    plan.settings.push_back(std::move(settings));
  }
  return data;
}

void check_trials(TunePlan& plan, const TrialData& data) {
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    try {
      complete(plan.settings[i], *data[i]);
      Blueprint blueprint = data[i]->blueprint;
      choose_net(blueprint, plan.settings[i]);
    } catch (const UsageError& error) {
      throw UsageError(message("trial ", i + 1, " (", describe(plan.trials[i]), "): ", error.what()));
    }
    expects<UsageError>(data[i]->blueprint.regression == data[0]->blueprint.regression, "trial ", i + 1, " (",
                        describe(plan.trials[i]), ") and the first one are not both regressions, or both tell ",
                        "classes apart; a search compares trials of one kind");
    plan.regression = data[i]->blueprint.regression;
    plan.epochs = std::max(plan.epochs, *plan.settings[i].epochs);
  }
}

}  // namespace tern::tool
