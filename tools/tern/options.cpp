#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "errors.hpp"
#include "tern/io/file.hpp"
#include "tern/io/number.hpp"

namespace tern::tool {

namespace {

std::string hyphenated(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The number of edits that turn one word into the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace

std::string suggestion(const std::string& wrong, const std::vector<std::string>& names, const std::string& prefix) {
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return distance(wrong, a) < distance(wrong, b);
  });
  if (nearest == names.end() || distance(wrong, *nearest) > std::max<std::size_t>(2, wrong.size() / 3)) return {};
  return "; did you mean " + prefix + *nearest + "?";
}

const Option* find_option(const Options& options, const std::string& name) {
  const std::string wanted = hyphenated(name);
  for (const Option& option : options)
    if (option.name == wanted ||
        std::find(option.aliases.begin(), option.aliases.end(), wanted) != option.aliases.end())
      return &option;
  return nullptr;
}

void set_option(const Options& options, const std::string& name, const std::string& text, const std::string& whose) {
  const Option* option = find_option(options, name);
  if (option == nullptr) {
    std::vector<std::string> names;
    for (const Option& known : options) names.push_back(known.name);
    throw UsageError(message(whose, "there is no option --", name, suggestion(hyphenated(name), names, "--")));
  }
  try {
    option->set(text);
  } catch (const UsageError& error) {
    throw UsageError(whose + error.what());
  }
}

// ---- values
// ----------------------------------------------------------------------------------------------------------

std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  expects<UsageError>(whole && value >= least && value <= most, "--", name, ": found '", text,
                      "', expected a whole number from ", least, " to ", most);
  return value;
}

double parse_number(const std::string& name, const std::string& text) {
  double value = 0;
  const auto [end, error] = io::read_number(text, value);
  expects<UsageError>(error == std::errc() && end == text.data() + text.size() && !text.empty() && std::isfinite(value),
                      "--", name, ": found '", text, "', expected a number");
  return value;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Option model_option(std::string& model) {
  Option option =
      text_option("model", "FILE", "the model: its file, an ONNX file, a checkpoint, or the folder of a run", model);
  option.kind = Value::file;
  return option;
}

Option text_option(std::string name, std::string value, std::string help, std::string& target) {
  Option option{.name = std::move(name), .value = std::move(value), .help = std::move(help)};
  option.set = [&target, name = option.name](const std::string& text) {
    expects<UsageError>(!text.empty(), "--", name, ": found nothing, expected a value");
    target = text;
  };
  option.get = [&target] { return target.empty() ? Json() : Json(target); };
  return option;
}

Option choice_option(std::string name, std::string help, std::vector<std::string> choices, std::string& target) {
  Option option{.name = std::move(name), .value = "NAME", .help = std::move(help), .choices = std::move(choices)};
  option.set = [&target, name = option.name, choices = option.choices](const std::string& text) {
    expects<UsageError>(std::find(choices.begin(), choices.end(), text) != choices.end(), "--", name, ": found '", text,
                        "', expected ", listed(choices));
    target = text;
  };
  option.get = [&target] { return target.empty() ? Json() : Json(target); };
  return option;
}

Option switch_option(std::string name, std::string help, bool& target) {
  Option option{.name = std::move(name), .help = std::move(help), .kind = Value::none};
  option.set = [&target, name = option.name](const std::string& text) {
    expects<UsageError>(text == "true" || text == "false", "--", name, ": found '", text, "', expected true or false");
    target = text == "true";
  };
  option.get = [&target] { return target ? Json(true) : Json(); };
  return option;
}

Option integer_option(std::string name, std::string value, std::string help, std::int64_t& target, std::int64_t least,
                      std::int64_t most) {
  Option option{.name = std::move(name), .value = std::move(value), .help = std::move(help)};
  option.set = [&target, name = option.name, least, most](const std::string& text) {
    target = parse_integer(name, text, least, most);
  };
  option.get = [&target] { return Json(target); };
  return option;
}

Option integer_option(std::string name, std::string value, std::string help, int& target, int least, int most) {
  Option option{.name = std::move(name), .value = std::move(value), .help = std::move(help)};
  option.set = [&target, name = option.name, least, most](const std::string& text) {
    target = static_cast<int>(parse_integer(name, text, least, most));
  };
  option.get = [&target] { return Json(target); };
  return option;
}

Option list_option(std::string name, std::string value, std::string help, std::vector<std::string>& target) {
  Option option{.name = std::move(name), .value = std::move(value), .help = std::move(help)};
  option.set = [&target, name = option.name](const std::string& text) {
    std::vector<std::string> parts = split_list(text);
    for (const std::string& part : parts)
      expects<UsageError>(!part.empty(), "--", name, ": found '", text, "', expected names separated by commas");
    target = std::move(parts);
  };
  option.get = [&target] { return target.empty() ? Json() : Json(target); };
  return option;
}

// ---- the command line
// ------------------------------------------------------------------------------------------------

OptionNames parse_arguments(const Verb& verb, const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> found(verb.options.size());
  const auto place = [&](const std::string& word, const std::string& name) {
    const Option* option = word.starts_with("--") ? find_option(verb.options, name) : nullptr;
    if (option != nullptr) return static_cast<std::size_t>(option - verb.options.data());
    std::vector<std::string> names;
    for (const Option& known : verb.options) names.push_back(known.name);
    throw UsageError(message("there is no option ", word.substr(0, word.find('=')), " of tern ", verb.name,
                             suggestion(hyphenated(name), names, "--")));
  };
  bool ended = false;  // after a word "--", no word is an option
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (!ended && *word == "--") {
      ended = true;
    } else if (ended || !word->starts_with("-") || *word == "-") {
      expects<UsageError>(verb.positionals != nullptr, "tern ", verb.name, " does not accept '", *word,
                          "'; options begin with --");
      verb.positionals->push_back(*word);
    } else {
      const std::size_t end = std::min(word->find('='), word->size());
      const std::size_t begin = std::min<std::size_t>(word->starts_with("--") ? 2 : 1, end);
      const std::size_t i = place(*word, word->substr(begin, end - begin));
      if (end < word->size()) {
        found[i].push_back(word->substr(end + 1));
      } else if (verb.options[i].value.empty()) {
        found[i].emplace_back("true");
      } else {
        expects<UsageError>(word + 1 != arguments.end() && !word[1].starts_with("--"), "--", verb.options[i].name,
                            " needs a value; see tern ", verb.name, " --help");
        found[i].push_back(*++word);
      }
    }
  }

  OptionNames chosen;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Option& option = verb.options[i];
    expects<UsageError>(found[i].size() < 2 || option.repeats || option.value.empty(), "--", option.name, " is set ",
                        found[i].size(), " times, expected once");
    for (const std::string& text : found[i]) option.set(text);
    if (!found[i].empty()) chosen.insert(option.name);
  }
  return chosen;
}

// ---- configuration files
// ---------------------------------------------------------------------------------------------

Json parse_json(std::string_view text, const std::string& file) {
  // Deep nesting would overflow the stack of a recursive reader, and tiny values take many times the memory of their
  // text. Nesting inside strings does not count.
  constexpr std::size_t per_value = 40, per_container = 96, most = std::size_t{56} << 20;
  int depth = 0;
  bool quoted = false;
  std::size_t memory = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    const bool opens = c == '[' || c == '{';
    depth += opens - (c == ']' || c == '}');
    expects<FileError>(depth <= 64, file, ": found JSON nested deeper than 64 levels");
    memory += opens || c == ':' ? per_container : c == ',' ? per_value : 0;
  }
  expects<FileError>(memory <= most, file, ": found JSON of so many values that they would take ", memory >> 20,
                     " MiB, expected ", most >> 20, " at most");
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    const std::string said = error.what();
    const auto place = said.find("parse error at ");
    const auto words = said.find("] ");  // after the library's own name of the error
    throw FileError(file + ": expected JSON: " +
                    (place != std::string::npos   ? said.substr(place)
                     : words != std::string::npos ? said.substr(words + 2)
                                                  : said));
  }
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json read_json_file(const std::string& file, std::size_t most_bytes) {
  const io::InputFile input(file);
  expects<FileError>(input.size() <= most_bytes, file, ": found ", input.size(), " bytes, expected at most ",
                     most_bytes);
  std::string text(static_cast<std::size_t>(input.size()), '\0');
  input.read(0, std::as_writable_bytes(std::span(text)));
  return parse_json(text, file);
}

OptionNames apply_config(const Options& options, const Json& config, const std::string& file,
                         const OptionNames& chosen) {
  expects<FileError>(config.is_object(), file, ": expected an object of options, such as {\"epochs\": 10}");
  OptionNames set;
  for (const auto& [name, value] : config.items()) {
    std::string text;
    if (value.is_string()) {
      text = value.get<std::string>();
    } else if (value.is_array()) {
      for (const Json& part : value)
        text += (text.empty() ? "" : ",") + (part.is_string() ? part.get<std::string>() : part.dump());
    } else if (value.is_primitive() && !value.is_null()) {
      text = value.dump();
    } else {
      throw UsageError(message(file, ": --", name, ": expected a text, a number, true, false or a list"));
    }
    const Option* option = find_option(options, name);
    expects<UsageError>(option == nullptr || !option->typed_only, file, ": --", name,
                        " names a program to run, which no file may do; give it on the command line");
    if (option != nullptr && chosen.contains(option->name)) continue;
    set_option(options, name, text, file + ": ");
    set.insert(option->name);
  }
  return set;
}

void expect_same(const Options& options, const OptionNames& chosen,
                 const std::function<bool(const std::string& name)>& fixed, const Json& saved,
                 const std::string& folder) {
  const auto shown = [](const Json& value) {
    if (value.is_null()) return std::string("not given");
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const Json present = to_config(options);
  for (const std::string& name : chosen) {
    if (!fixed(name)) continue;
    const Json now = present.value(name, Json()), before = saved.value(name, Json());
    expects<UsageError>(now == before, "--", name, " is ", shown(now), " here and ", shown(before),
                        " in the training that --resume continues in ", folder,
                        "; leave it out, or start over in another --run");
  }
}

Json to_config(const Options& options) {
  Json config = Json::object();
  for (const Option& option : options)
    if (option.get && !option.typed_only)
      if (Json value = option.get(); !value.is_null()) config[option.name] = std::move(value);
  return config;
}

}  // namespace tern::tool
