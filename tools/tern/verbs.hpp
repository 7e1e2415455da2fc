#pragma once
// What each verb does, and its table of options.

#include <memory>
#include <string>
#include <vector>

#include "options.hpp"

namespace tern::tool {

/// A verb with its implementation. The options write into variables that `run` reads, so there is one object per call.
class Command {
 public:
  virtual ~Command() = default;
  virtual Verb& verb() = 0;
  /// Returns the exit code.
  virtual int run(const OptionNames& chosen) = 0;
};

using Maker = std::unique_ptr<Command> (*)();
struct Entry {
  const char* name;
  Maker make;
};
/// Every verb, in the order in which --help lists them.
const std::vector<Entry>& commands();

std::unique_ptr<Command> make_train();
std::unique_ptr<Command> make_test();
std::unique_ptr<Command> make_predict();
std::unique_ptr<Command> make_tune();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_info();
std::unique_ptr<Command> make_export();
std::unique_ptr<Command> make_graph();
std::unique_ptr<Command> make_convert();
std::unique_ptr<Command> make_quantize();
std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_man();

/// Writes text to standard output, made safe for a terminal; a failure (a full disk, a closed pipe) is an Error.
void print(const std::string& text);

}  // namespace tern::tool
