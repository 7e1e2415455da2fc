#pragma once
// The options of a verb as a table, used by the command line, --help, the man page, shell completion, configuration
// files and hyperparameter search.

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "settings.hpp"
#include "tern/modes/device.hpp"

namespace tern::tool {

using Json = nlohmann::ordered_json;

/// The kind of an option's value, for shell completion.
enum class Value { none, text, file, folder };

struct Option {
  std::string name = {};                  // "learning-rate"
  std::string value = {};                 // "RATE"; empty for a switch
  std::string help = {};                  // what it does, in short
  std::string group = {};                 // heading under which it is listed
  std::vector<std::string> choices = {};  // the possible values, if they can be listed
  Value kind = Value::text;
  bool brief = false;                                     // listed by --help, not only by --help-all
  bool repeats = false;                                   // may be repeated
  bool typed_only = false;                                // cannot be set in a file: it names a program to run
  std::vector<std::string> aliases = {};                  // further names
  std::function<void(const std::string& text)> set = {};  // throws UsageError
  std::function<Json()> get = {};                         // null if nothing is set
};

using Options = std::vector<Option>;

/// The option with that name or alias, with hyphens or underscores; null if there is none.
const Option* find_option(const Options& options, const std::string& name);
/// Sets one option from text. Throws UsageError that names it; `whose` begins the sentence ("config.json: ").
void set_option(const Options& options, const std::string& name, const std::string& text,
                const std::string& whose = {});
/// The most similar of some names, as "; did you mean --x?", or nothing.
std::string suggestion(const std::string& wrong, const std::vector<std::string>& names, const std::string& prefix);

/// The options from which `tern train` and `tern tune` set up a training.
Options training_options(Settings& settings);
/// --mode, --threads, --precision, --verify and --numerics.
Options machine_options(Settings& settings);
/// Their values, for a Device.
DeviceOptions device_options(const Settings& settings);

// For the tables of the verbs: options that set a variable from text, with checks.
Option text_option(std::string name, std::string value, std::string help, std::string& target);
Option choice_option(std::string name, std::string help, std::vector<std::string> choices, std::string& target);
Option switch_option(std::string name, std::string help, bool& target);
Option integer_option(std::string name, std::string value, std::string help, std::int64_t& target, std::int64_t least,
                      std::int64_t most);
Option integer_option(std::string name, std::string value, std::string help, int& target, int least, int most);
Option list_option(std::string name, std::string value, std::string help, std::vector<std::string>& target);
/// --model FILE, of the verbs that read a model.
Option model_option(std::string& model);

/// A whole number, or UsageError: "--epochs: found 'x', expected a whole number from 1 to 10".
std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t least, std::int64_t most);
/// A finite number.
double parse_number(const std::string& name, const std::string& text);
std::vector<std::string> split_list(const std::string& text);

/// A verb: `tern NAME`.
struct Verb {
  std::string name = {};
  std::string summary = {};      // one line
  std::string synopsis = {};     // what follows the name in the usage line
  std::string description = {};  // a paragraph for the man page
  std::vector<std::string> examples = {};
  Options options = {};
  std::string positional = {};  // "RUN..." if the verb takes some
  std::vector<std::string>* positionals = nullptr;
  bool hidden = false;
  std::vector<std::string> words = {};  // words after the name, as written
};

/// Options that were set on a command line, in table order.
using OptionNames = std::set<std::string>;

/// Reads the arguments after the verb into the variables of its options. `--config FILE` is applied first. Throws
/// UsageError.
OptionNames parse_arguments(const Verb& verb, const std::vector<std::string>& arguments);
/// Applies a JSON object of options, except those in `given`. Returns the names of those that were set. Throws
/// FileError if it is not such an object, UsageError for a wrong name or value.
OptionNames apply_config(const Options& options, const Json& config, const std::string& file,
                         const OptionNames& chosen);
/// JSON as text, on one line unless `indent` says otherwise. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& json, int indent = -1);
/// JSON from an untrusted text; FileError begins with `file`.
Json parse_json(std::string_view text, const std::string& file);
Json read_json_file(const std::string& file, std::size_t most_bytes = std::size_t{1} << 20);
/// The options that are set, in the form of apply_config.
Json to_config(const Options& options);
/// Throws UsageError for an option in `given` that is among `fixed` and differs in `saved`, the options that --resume
/// finds in `folder`.
void expect_same(const Options& options, const OptionNames& chosen,
                 const std::function<bool(const std::string& name)>& fixed, const Json& saved,
                 const std::string& folder);

}  // namespace tern::tool
