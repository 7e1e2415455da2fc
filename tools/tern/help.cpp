#include "help.hpp"

#include <algorithm>

#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t screen_width = 80;

std::string option_lines(const Option& option, std::size_t column, bool all) {
  std::string left = "  --" + option.name + (option.value.empty() ? "" : " " + option.value);
  std::string text;
  if (width_of(left) + 1 > column) {
    text = left + "\n";
    left.clear();
  }
  for (const std::string& line : wrapped(all ? option_help(option) : option.help, screen_width - column)) {
    text += padded(left, column) + line + "\n";
    left.clear();
  }
  return text;
}

}  // namespace

std::string option_help(const Option& option) {
  std::string text = option.help;
  const bool listed = std::all_of(option.choices.begin(), option.choices.end(),
                                  [&](const std::string& choice) { return text.find(choice) != std::string::npos; });
  if (!listed) {
    text += ":";
    for (std::size_t i = 0; i < option.choices.size(); ++i) text += (i > 0 ? ", " : " ") + option.choices[i];
  }
  // The value before anything is read is the default.
  const Json value = option.get && !option.value.empty() ? option.get() : Json();
  const std::string fallback = value.is_string()         ? value.get<std::string>()
                               : value.is_number_float() ? message(value.get<double>())
                               : value.is_null()         ? ""
                                                         : value.dump();
  const bool said = fallback.empty() || text.find("(" + fallback) != std::string::npos ||
                    text.find("default") != std::string::npos || text.find(fallback + ":") != std::string::npos;
  return said ? text : text + " (" + fallback + ")";
}

std::string verb_help(const Verb& verb, bool all) {
  std::string text = "usage: tern " + verb.name + (verb.synopsis.empty() ? "" : " ") + verb.synopsis + "\n";
  for (const std::string& line : wrapped(verb.summary, screen_width)) text += line + "\n";
  std::string group;
  const bool shortened_list =
      !all && std::any_of(verb.options.begin(), verb.options.end(), [](const Option& option) { return !option.brief; });
  if (!all && !verb.options.empty()) text += "\n";
  for (const Option& option : verb.options) {
    if (!all && !option.brief) continue;
    if (all && option.group != group) text += "\n" + option.group + "\n";
    group = option.group;
    text += option_lines(option, 24, all);
  }
  if (shortened_list) text += "  --help-all            all options, also in man tern\n";
  text += all && verb.examples.size() > 1 ? "\nexamples:\n" : "\nexample:\n";
  for (std::size_t i = 0; i < verb.examples.size() && (all || i == 0); ++i) text += "  " + verb.examples[i] + "\n";
  return text;
}

std::string program_help() {
  std::string text =
      "usage: tern VERB [options]\n"
      "Trains and evaluates neural networks, without a line of C++.\n\n";
  for (const Entry& entry : commands()) {
    const auto command = entry.make();
    if (command->verb().hidden) continue;
    std::string left = "  " + padded(entry.name, 10);
    for (const std::string& line : wrapped(command->verb().summary, screen_width - 12)) {
      text += left + line + "\n";
      left = std::string(12, ' ');
    }
  }
  return text +
         "\nexample: tern train --dataset iris.csv && tern test --model run --dataset iris.csv\n"
         "See tern VERB --help. Exit codes: 0 ok, 1 failed, 2 usage, 3 data, 4 device,\n"
         "5 another rank, 130 or 143 interrupted.\n";
}

}  // namespace tern::tool
