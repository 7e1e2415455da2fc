#pragma once
// Where the verbs that say something put it, and in what form.

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
/// Throws UsageError when `file`, which is about to be written, is one of the files that are read: their loss is never
/// meant. For a folder of a run its model and metrics count. Nothing happens where `file` is empty or new.
void keep_inputs(const std::string& file, const std::vector<std::string>& inputs);
/// The file is written whole or not at all.
void write_file(const std::string& name, const std::string& text);
/// To the file, if there is one, else to standard output.
void write_output(const Output& output, const std::string& text);

/// --model, --dataset and what reads a data set, --mode and --threads.
Options test_options(Settings& settings, std::string& model);

}  // namespace tern::tool
