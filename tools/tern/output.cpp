#include "output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "run_folder.hpp"
#include "tern/io/file.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

void add_output_options(Options& options, Output& output) {
  Option format = choice_option("format", "of the result: table, json or csv", {"table", "json", "csv"}, output.format);
  Option file = text_option("out", "FILE", "file of the result (default: standard output)", output.file);
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

void print(const std::string& text) {
  const std::string& shown = isatty(STDOUT_FILENO) != 0 ? visible(text) : text;
  expects<Error>(std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0,
                 "standard output cannot be written");
}

void write_file(const std::string& name, const std::string& text) {
  io::AtomicFile file(name);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void write_output(const Output& output, const std::string& text) {
  // A table is for reading, wherever it goes; the other formats keep every byte.
  const std::string& written = output.format == "table" ? visible(text) : text;
  output.file.empty() ? print(written) : write_file(output.file, written);
}

Options test_options(Settings& settings, std::string& model) {
  Options options;
  Option file = model_option(model);
  file.group = "Data";
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
