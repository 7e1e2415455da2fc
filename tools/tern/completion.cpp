// `tern completion SHELL`: shell completion, from the table of options.

#include <algorithm>

#include "errors.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// In single quotes, for a shell.
std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Entry& entry : commands())
    if (!entry.make()->verb().hidden) names.emplace_back(entry.name);
  return names;
}

bool takes_files(const Option& option) { return option.kind == Value::file || option.kind == Value::folder; }

std::string bash() {
  std::string text =
      "# bash completion for tern: source it, or put it where bash-completion looks\n"
      "_tern() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W \"" +
      joined(verb_names()) +
      " --help --version\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case $verb:$before in\n";
  for (const Entry& entry : commands()) {
    const auto command = entry.make();
    for (const Option& option : command->verb().options) {
      if (option.value.empty()) continue;
      text += std::string("    ") + entry.name + ":--" + option.name + ") ";
      if (!option.choices.empty())
        text += "COMPREPLY+=($(compgen -W \"" + joined(option.choices) + "\" -- \"$word\")); ";
      if (takes_files(option))
        text += option.kind == Value::folder ? "COMPREPLY+=($(compgen -d -- \"$word\")); "
                                             : "COMPREPLY+=($(compgen -f -- \"$word\")); ";
      text += "return ;;\n";
    }
  }
  text += "  esac\n  case $verb in\n";
  for (const Entry& entry : commands()) {
    const auto command = entry.make();
    std::vector<std::string> names;
    for (const Option& option : command->verb().options) names.push_back("--" + option.name);
    names.emplace_back("--help");
    text += std::string("    ") + entry.name + ") COMPREPLY=($(compgen -W \"" + joined(names) + "\" -- \"$word\"))";
    if (command->verb().positionals != nullptr)
      text += "\n      [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- \"$word\"))";
    text += " ;;\n";
  }
  return text + "  esac\n}\ncomplete -o filenames -F _tern tern\n";
}

std::string zsh() {
  std::string text =
      "#compdef tern\n# zsh completion for tern: put it as _tern into a folder of fpath\n_tern() {\n  if ((CURRENT == "
      "2)); then\n    local -a verbs=(";
  const auto described = [](const std::string& name, std::string help) {
    for (std::size_t at = help.find(':'); at != std::string::npos; at = help.find(':', at + 2))
      help.replace(at, 1, "\\:");
    return in_quotes(name + ":" + help);
  };
  for (const Entry& entry : commands()) {
    const auto command = entry.make();
    if (!command->verb().hidden) text += "\n      " + described(entry.name, command->verb().summary);
  }
  text += ")\n    _describe verb verbs\n    return\n  fi\n  case $words[2] in\n";
  for (const Entry& entry : commands()) {
    const auto command = entry.make();
    text += std::string("    ") + entry.name + ")\n      shift words; ((CURRENT--))\n      _arguments";
    for (const Option& option : command->verb().options) {
      std::string help;
      for (const char c : option.help)
        help += c == '[' || c == ']' || c == ':' ? std::string("\\") + c : std::string(1, c);
      std::string action =
          option.value.empty() ? ""
          : !option.choices.empty()
              ? ":" + option.value + ":" + (takes_files(option) ? "_files" : "(" + joined(option.choices) + ")")
          : option.kind == Value::folder ? ":" + option.value + ":_files -/"
          : option.kind == Value::file   ? ":" + option.value + ":_files"
                                         : ":" + option.value + ":";
      text +=
          " \\\n        " + in_quotes((option.repeats ? "*" : "") + ("--" + option.name) + "[" + help + "]" + action);
    }
    if (command->verb().positionals != nullptr) text += " \\\n        '*:file:_files'";
    text += " ;;\n";
  }
  return text + "  esac\n}\n_tern \"$@\"\n";
}

std::string fish() {
  std::string text =
      "# fish completion for tern: put it as tern.fish into ~/.config/fish/completions\ncomplete -c tern -f\n";
  for (const Entry& entry : commands()) {
    const auto command = entry.make();
    if (!command->verb().hidden)
      text += std::string("complete -c tern -n __fish_use_subcommand -a ") + entry.name + " -d " +
              in_quotes(command->verb().summary) + "\n";
    const std::string where = std::string("complete -c tern -n '__fish_seen_subcommand_from ") + entry.name + "'";
    for (const Option& option : command->verb().options) {
      text += where + " -l " + option.name + " -d " + in_quotes(option.help);
      if (!option.value.empty()) text += " -x";
      if (takes_files(option))
        text += " -a '(__fish_complete_path)'";
      else if (!option.choices.empty())
        text += " -a " + in_quotes(joined(option.choices));
      text += "\n";
    }
    if (command->verb().positionals != nullptr) text += where + " -F\n";
  }
  return text;
}

class Completion : public Command {
 public:
  Completion() {
    verb_ = {.name = "completion",
             .summary = "Prints the completion script of a shell.",
             .synopsis = "bash|zsh|fish",
             .description = "From the options that --help lists.",
             .examples = {"source <(tern completion bash)"},
             .positional = "SHELL",
             .positionals = &shells_,
             .hidden = true};
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    const std::string shell = shells_.size() == 1 ? shells_[0] : "";
    expects<UsageError>(shell == "bash" || shell == "zsh" || shell == "fish",
                        "tern completion needs the name of a shell: bash, zsh or fish");
    print(shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish());
    return success;
  }

 private:
  std::vector<std::string> shells_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_completion() { return std::make_unique<Completion>(); }

}  // namespace tern::tool
