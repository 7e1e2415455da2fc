#include "trial_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "errors.hpp"
#include "output.hpp"
#include "tern/io/file.hpp"

namespace tern::tool {

namespace {

std::string outcome_in(const std::string& folder) { return folder + "/outcome.json"; }

// By the epochs of the rung.
Json outcomes_in(const std::string& folder) {
  std::error_code missing;
  if (!std::filesystem::exists(outcome_in(folder), missing)) return Json::object();
  Json outcomes = read_json_file(outcome_in(folder));
  expects<FileError>(outcomes.is_object(), outcome_in(folder), ": expected the outcomes of a trial");
  return outcomes;
}

void write(const std::string& folder, const Json& outcomes) {
  write_file(outcome_in(folder), json_text(outcomes, 1) + "\n");
}

// JSON has no NaN.
double number(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::optional<double> figure(const Json& outcome, const char* name) {
  return outcome.contains(name) ? std::optional(number(outcome[name])) : std::nullopt;
}

TrialState state_of(const std::string& name) {
  for (const TrialState state : {TrialState::paused, TrialState::done, TrialState::failed})
    if (name == name_of(state)) return state;
  throw FileError("found the state '" + name + "', expected paused, done or failed");
}

}  // namespace

TrialClaim::TrialClaim(const std::string& folder) {
  io::make_folders(folder);
  const std::string file = folder + "/claim";
  // Opened for writing: network file systems lock nothing else.
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  expects<FileError>(descriptor_ >= 0, file, ": cannot be written: ", std::generic_category().message(errno));
  held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const int error = errno;
  if (held_ || error == EWOULDBLOCK) return;
  ::close(descriptor_);
  throw FileError(message(file, ": cannot be locked: ", std::generic_category().message(error),
                          "; several processes share a search only where files can be locked"));
}

TrialClaim::~TrialClaim() { ::close(descriptor_); }

std::optional<TrialStatus> read_outcome(const std::string& folder, std::int64_t epochs) {
  const Json outcomes = outcomes_in(folder);
  const auto found = outcomes.find(std::to_string(epochs));
  if (found == outcomes.end()) return std::nullopt;
  try {
    const Json& outcome = *found;
    return TrialStatus{.state = state_of(outcome.at("state")),
                       .epoch = outcome.at("epoch"),
                       .loss = number(outcome.at("loss")),
                       .validation_loss = figure(outcome, "validation_loss"),
                       .accuracy = figure(outcome, "accuracy"),
                       .test = figure(outcome, "test"),
                       .seconds = outcome.at("seconds"),
                       .problem = outcome.at("problem")};
  } catch (const std::exception& error) {
    throw FileError(message(outcome_in(folder), ": ", error.what()));
  }
}

void write_outcome(const std::string& folder, std::int64_t epochs, const TrialStatus& status) {
  Json outcome{{"state", name_of(status.state)},
               {"epoch", status.epoch},
               {"loss", number(status.loss)},
               {"seconds", status.seconds},
               {"problem", status.problem}};
  if (status.validation_loss) outcome["validation_loss"] = number(*status.validation_loss);
  if (status.accuracy) outcome["accuracy"] = number(*status.accuracy);
  if (status.test) outcome["test"] = number(*status.test);
  Json outcomes = outcomes_in(folder);
  outcomes[std::to_string(epochs)] = std::move(outcome);
  write(folder, outcomes);
}

void forget_failure(const std::string& folder) {
  Json kept = Json::object();
  const Json outcomes = outcomes_in(folder);
  for (const auto& [epochs, outcome] : outcomes.items())
    if (outcome.value("state", "") != name_of(TrialState::failed)) kept[epochs] = outcome;
  if (kept.size() != outcomes.size()) write(folder, kept);
}

}  // namespace tern::tool
