// `tern VERB [options]`: finds the verb, reads its options, runs it, and turns exceptions into an exit code and one
// sentence.

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "errors.hpp"
#include "help.hpp"
#include "tern/core/version.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {
namespace {

bool among(const std::vector<std::string>& arguments, const char* name) {
  return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
}

// `tern --train ...`, the form of the course's program, is `tern train ...`.
void accept_switches_as_verbs(std::vector<std::string>& arguments) {
  if (arguments.empty() || !arguments[0].starts_with("--")) return;
  for (const char* name : {"train", "test", "predict"}) {
    const auto found = std::find(arguments.begin(), arguments.end(), std::string("--") + name);
    if (found == arguments.end()) continue;
    arguments.erase(found);
    arguments.insert(arguments.begin(), name);
    return;
  }
}

int run(std::vector<std::string> arguments) {
  accept_switches_as_verbs(arguments);
  if (arguments.empty()) {
    std::fputs(program_help().c_str(), stderr);
    return usage;
  }
  const std::string name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    print(program_help());
    return success;
  }
  if (name == "--version") {
    print(message("tern ", version(), "\n"));
    return success;
  }
  std::vector<std::string> names;
  for (const Entry& entry : commands()) {
    names.emplace_back(entry.name);
    if (name != entry.name) continue;
    const auto command = entry.make();
    arguments.erase(arguments.begin());
    if (among(arguments, "--help") || among(arguments, "-h") || among(arguments, "--help-all")) {
      print(verb_help(command->verb(), among(arguments, "--help-all")));
      return success;
    }
    command->verb().words = arguments;
    return command->run(parse_arguments(command->verb(), arguments));
  }
  throw UsageError(message("there is no verb '", name, "'", suggestion(name, names, "tern "), "; see tern --help"));
}

// If a standard stream is closed, the next opened file, a model or metrics, would take its place and receive printed
// text. This puts streams there whose use fails.
void fill_closed_streams() {
  for (const int descriptor : {0, 1, 2})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace
}  // namespace tern::tool

int main(int argc, char** argv) {
  using namespace tern::tool;
  fill_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is then a write error, which has a name
  try {
    return run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const std::bad_alloc&) {
    std::fputs("tern: memory ran out; a smaller --batch-size or --limit takes less\n", stderr);
    return failed;
  } catch (const std::exception& error) {
    say(std::string("tern: ") + error.what());
    return exit_code(error);
  }
}
