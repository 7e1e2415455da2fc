#include "tune_plan.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "errors.hpp"
#include "tern/tensor/create.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t most_trials = 100000;

std::pair<std::string, std::string> name_and_value(const std::string& text, const char* option,
                                                   const Options& options) {
  const auto equals = text.find('=');
  expects<UsageError>(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), "--", option, ": found '",
                      text, "', expected NAME=VALUES, such as learning-rate=0.1,0.01");
  std::string name = text.substr(0, equals);
  if (name.starts_with("--")) name.erase(0, 2);
  const Option* known = find_option(options, name);
  std::vector<std::string> names;
  for (const Option& candidate : options) names.push_back(candidate.name);
  expects<UsageError>(known != nullptr, "--", option, ": there is no option ", name, suggestion(name, names, ""));
  expects<UsageError>(known->group != "Results" && known->name != "mode" && known->name != "threads", "--", option,
                      ": ", known->name, " is the same for all trials");
  return {known->name, text.substr(equals + 1)};
}

Dimension& dimension_of(std::vector<Dimension>& dimensions, const std::string& name) {
  for (Dimension& dimension : dimensions)
    if (dimension.option == name) return dimension;
  return dimensions.emplace_back(Dimension{.option = name});
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string drawn(const Dimension& dimension, double uniform) {
  if (!dimension.values.empty())
    return dimension.values[std::min(dimension.values.size() - 1,
                                     static_cast<std::size_t>(uniform * static_cast<double>(dimension.values.size())))];
  const double low = dimension.low, high = dimension.high;
  const double end = dimension.whole ? high + 1 : high;  // both ends of a range of whole numbers are included
  const double value = dimension.logarithmic ? low * std::pow(end / low, uniform) : low + (end - low) * uniform;
  if (dimension.whole) return std::to_string(static_cast<std::int64_t>(std::min(std::floor(value), high)));
  // Four digits are enough for a hyperparameter, and can be typed.
  PlainStream text;
  text.precision(4);
  text << value;
  return text.str();
}

}  // namespace

void add_grid(std::vector<Dimension>& dimensions, const std::string& text, const Options& options) {
  const auto [name, values] = name_and_value(text, "grid", options);
  Dimension& dimension = dimension_of(dimensions, name);
  expects<UsageError>(!dimension.values.empty() || dimension.high == dimension.low, "--grid: ", name,
                      " has a --range already");
  const bool list = name == "layers" || name == "ignore";
  const char separator = values.find('|') != std::string::npos ? '|' : ',';
  for (const std::string& value :
       list&& separator == ',' ? std::vector<std::string>{values} : split_at(values, separator)) {
    set_option(options, name, value, "--grid: ");
    expects<UsageError>(std::find(dimension.values.begin(), dimension.values.end(), value) == dimension.values.end(),
                        "--grid: ", name, " has ", value, " twice");
    dimension.values.push_back(value);
  }
}

void add_range(std::vector<Dimension>& dimensions, const std::string& text, const Options& options) {
  const auto [name, range] = name_and_value(text, "range", options);
  const std::vector<std::string> parts = split_at(range, ':');
  expects<UsageError>(
      (parts.size() == 2 || parts.size() == 3) && (parts.size() == 2 || parts[2] == "log" || parts[2] == "linear"),
      "--range: found '", text, "', expected NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=LOW:HIGH:linear");
  Dimension& dimension = dimension_of(dimensions, name);
  expects<UsageError>(dimension.values.empty() && dimension.high == dimension.low, "--range: ", name,
                      " is given more than once");
  dimension.low = parse_number("range", parts[0]);
  dimension.high = parse_number("range", parts[1]);
  expects<UsageError>(dimension.low < dimension.high, "--range: found '", text, "', expected LOW below HIGH");
  for (int end = 0; end < 2; ++end) set_option(options, name, parts[static_cast<std::size_t>(end)], "--range: ");
  const auto whole = [](const std::string& number) {
    return number.find_first_not_of("+-0123456789") == std::string::npos;
  };
  // 0:1 of a fraction is not 0 or 1: the option itself says whether it accepts fractions.
  dimension.whole = whole(parts[0]) && whole(parts[1]);
  if (dimension.whole) {
    try {
      set_option(options, name, message((dimension.low + dimension.high) / 2 + 0.25));
      dimension.whole = false;
    } catch (const UsageError&) {
    }
  }
  dimension.logarithmic =
      parts.size() == 3 ? parts[2] == "log" : dimension.low > 0 && dimension.high >= 10 * dimension.low;
  expects<UsageError>(!dimension.logarithmic || dimension.low > 0, "--range: found '", text,
                      "', expected a logarithmic range above 0");
}

std::vector<Trial> every_combination(const std::vector<Dimension>& dimensions) {
  std::vector<Trial> trials{{}};
  for (const Dimension& dimension : dimensions) {
    expects<UsageError>(!dimension.values.empty(), "--range ", dimension.option,
                        " needs --random N: a range has no end");
    std::vector<Trial> longer;
    expects<UsageError>(trials.size() * dimension.values.size() <= most_trials, "--grid: more than ", most_trials,
                        " combinations; --random N draws some of them");
    for (const Trial& trial : trials)
      for (const std::string& value : dimension.values) {
        longer.push_back(trial);
        longer.back().values.emplace_back(dimension.option, value);
      }
    trials = std::move(longer);
  }
  return trials;
}

std::vector<Trial> drawn_combinations(const std::vector<Dimension>& dimensions, std::int64_t count,
                                      std::uint64_t seed) {
  Generator generator(seed);
  generator.set_position(std::uint64_t{5} << 60);  // its own stream
  std::vector<Trial> trials;
  // Few combinations soon repeat: then there are fewer trials than requested.
  for (std::int64_t tries = 0; tries < 50 * count && static_cast<std::int64_t>(trials.size()) < count; ++tries) {
    const auto uniform =
        rand({static_cast<std::int64_t>(std::max<std::size_t>(dimensions.size(), 1))}, generator).values();
    Trial trial;
    for (std::size_t i = 0; i < dimensions.size(); ++i)
      trial.values.emplace_back(dimensions[i].option, drawn(dimensions[i], uniform[i]));
    if (std::find(trials.begin(), trials.end(), trial) == trials.end()) trials.push_back(std::move(trial));
  }
  return trials;
}

std::string describe(const Trial& trial) {
  std::string text;
  for (const auto& [name, value] : trial.values) text += (text.empty() ? "" : ", ") + name + " " + value;
  return text;
}

Json to_json(const std::vector<Trial>& trials) {
  Json list = Json::array();
  for (const Trial& trial : trials) {
    Json values = Json::object();
    for (const auto& [name, value] : trial.values) values[name] = value;
    list.push_back(std::move(values));
  }
  return list;
}

std::vector<Trial> trials_from(const Json& json, const std::string& file) {
  expects<FileError>(json.is_array() && !json.empty() && json.size() <= most_trials, file,
                     ": expected a list of trials");
  std::vector<Trial> trials;
  for (const Json& values : json) {
    expects<FileError>(values.is_object(), file, ": expected each trial to be an object of options");
    Trial trial;
    for (const auto& [name, value] : values.items()) {
      expects<FileError>(value.is_string(), file, ": expected the value of ", name, " to be a text");
      trial.values.emplace_back(name, value.get<std::string>());
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace tern::tool
