#include "tern/io/download.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tern/core/error.hpp"
#include "tern/io/file.hpp"
#include "tern/io/sha256.hpp"

extern char** environ;

namespace tern::io {

namespace {

// Runs a program found in PATH and waits for it. Returns what went wrong, empty for success. No shell is involved, so
// no character of an argument has a meaning.
std::string run(std::vector<std::string> arguments) {
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return "no pipe: " + std::generic_category().message(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  std::string said;
  if (error == 0) {
    std::array<char, 512> buffer{};
    for (;;) {
      const ssize_t count = ::read(pipe_ends[0], buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      if (said.size() < 2000) said.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }
  ::close(pipe_ends[0]);
  if (error != 0) return message(arguments[0], " cannot be started: ", std::generic_category().message(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return "waiting failed: " + std::generic_category().message(errno);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  return said.empty() ? message(arguments[0], " failed with status ", WEXITSTATUS(status)) : said;
}

bool present(const char* program) { return run({program, "--version"}).empty(); }

std::string fetch(const std::string& address, const std::string& file) {
  if (present("curl"))
    return run({"curl", "--fail", "--location", "--silent", "--show-error", "--connect-timeout", "30", "--max-time",
                "900", "--output", file, "--", address});
  if (present("wget")) return run({"wget", "--no-verbose", "--tries=2", "--timeout=30", "-O", file, "--", address});
  return "neither curl nor wget is installed (apt install curl)";
}

}  // namespace

void download(const std::vector<std::string>& addresses, const std::string& file, const std::string& sum) {
  // The part is named for the process, so that two processes may fetch the same file: the last rename wins, both are
  // right.
  const std::string part = message(file, ".part.", ::getpid());
  std::string said;
  for (const std::string& address : addresses) {
    std::string problem = fetch(address, part);
    if (problem.empty()) {
      const std::string found = sha256_of_file(part);
      if (found == sum) {
        std::error_code error;
        std::filesystem::rename(part, file, error);
        if (!error) return;
        problem = error.message();
      } else {
        problem = message("its SHA-256 is ", found, ", expected ", sum);
      }
    }
    ::unlink(part.c_str());
    said += message("\n  ", address, ": ", problem);
  }
  throw FileError(message(file, ": could not be downloaded; fetch it by hand and put it there. Tried", said));
}

}  // namespace tern::io
