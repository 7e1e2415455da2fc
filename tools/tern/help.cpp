#include "help.hpp"

#include <algorithm>

#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t screen_width = 80;

std::string option_lines(const Option& option, std::size_t column) {
  std::string left = "  --" + option.name + (option.value.empty() ? "" : " " + option.value);
  std::string text;
  if (width_of(left) + 1 > column) {
    text = left + "\n";
    left.clear();
  }
  for (const std::string& line : wrapped(option.help, screen_width - column)) {
    text += padded(left, column) + line + "\n";
    left.clear();
  }
  return text;
}

}  // namespace

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
    text += option_lines(option, 24);
  }
  if (shortened_list) text += "  --help-all            all options, also in man tern\n";
  text += all && verb.examples.size() > 1 ? "\nexamples:\n" : "\nexample:\n";
  for (std::size_t i = 0; i < verb.examples.size() && (all || i == 0); ++i) text += "  " + verb.examples[i] + "\n";
  return text;
}

std::string program_help() {
  std::string text =
      "usage: tern VERB [options]\n"
      "Trains neural networks and says how good they are, without a line of C++.\n\n";
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
         "tern VERB --help says more. Exit codes: 0 ok, 1 failed, 2 usage, 3 data, 4 device,\n"
         "130 or 143 interrupted.\n";
}

}  // namespace tern::tool
