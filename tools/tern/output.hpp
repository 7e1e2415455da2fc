#pragma once
// Output of the verbs: where and in which format.

#include <string>
#include <vector>

#include "errors.hpp"
#include "options.hpp"
#include "settings.hpp"

namespace tern::tool {

struct Output {
  std::string format = "table";
  std::string file = {};
};

/// --format and --out.
void add_output_options(Options& options, Output& output);
/// Throws UsageError if `file`, which is about to be written, is one of the files that are read. For a run folder its
/// model and metrics count. Does nothing if `file` is empty or new.
void keep_inputs(const std::string& file, const std::vector<std::string>& inputs);
/// The file is written completely or not at all.
void write_file(const std::string& name, const std::string& text);
/// To the file, if there is one, else to standard output.
void write_output(const Output& output, const std::string& text);

/// --model, --dataset and the options for reading a data set, --mode and --threads.
Options test_options(Settings& settings, std::string& model);

}  // namespace tern::tool
