#include "output.hpp"

#include <algorithm>
#include <filesystem>

#include "run_folder.hpp"
#include "tern/io/file.hpp"
#include "verbs.hpp"

namespace tern::tool {

void add_output_options(Options& options, Output& output) {
  Option format = choice_option("format", "of the result: table, json or csv", {"table", "json", "csv"}, output.format);
  Option file = text_option("out", "FILE", "where the result goes (default: standard output)", output.file);
  file.kind = Value::file;
  for (Option* option : {&format, &file}) {
    option->group = "Results";
    option->brief = true;
    options.push_back(std::move(*option));
  }
}

void keep_inputs(const std::string& file, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs)
    for (const std::string& read : {input, RunFolder::model_in(input), RunFolder::metrics_in(input)}) {
      std::error_code missing;
      expects<UsageError>(!std::filesystem::equivalent(file, read, missing), file,
                          " is read here and would be overwritten; choose another name for the result");
    }
}

void write_output(const Output& output, const std::string& text) {
  if (output.file.empty()) return print(text);
  io::AtomicFile file(output.file);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

Options test_options(Settings& settings, std::string& model) {
  Options options;
  Option file = text_option("model", "FILE", "the model: its file, or the folder of a run", model);
  file.group = "Data";
  file.kind = Value::file;
  file.brief = true;
  options.push_back(std::move(file));
  for (Option& option : training_options(settings)) {
    static const std::vector<std::string> wanted{"dataset", "target",   "ignore", "header",
                                                 "data",    "download", "limit",  "corrupt"};
    const bool machine = option.group == "Machine";
    if (!machine && std::find(wanted.begin(), wanted.end(), option.name) == wanted.end()) continue;
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace tern::tool
