#include "tern/io/download.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "tern/core/error.hpp"
#include "tern/io/file.hpp"
#include "tern/io/sha256.hpp"

namespace tern::io {

namespace {

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) ::close(end);
  }
  void close_writing() { ::close(std::exchange(ends[1], -1)); }
};

using Take = std::function<bool(std::span<const std::byte>)>;

// Runs a program from PATH, passes its standard output to `take` until that refuses, and waits for it. Returns the
// error, empty for success. No shell is involved, so no character in an argument is special.
std::string run(std::vector<std::string> arguments, const Take& take) {
  Pipe out, said;
  if (::pipe2(out.ends.data(), O_CLOEXEC) != 0 || ::pipe2(said.ends.data(), O_CLOEXEC) != 0)
    return "no pipe: " + std::generic_category().message(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, said.ends[1], 2);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return message(arguments[0], " cannot be started: ", std::generic_category().message(error));
  out.close_writing();
  said.close_writing();
  std::string words;
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  std::array<pollfd, 2> ends{pollfd{out.ends[0], POLLIN, 0}, pollfd{said.ends[0], POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0) continue;
    for (pollfd& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      const ssize_t count = ::read(end.fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      const std::span bytes(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      if (count <= 0) {
        end.fd = -1;
      } else if (&end == &ends[1]) {
        if (words.size() < 2000) words.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      } else if (!take(bytes)) {
        ::kill(child, SIGKILL);
        end.fd = -1;
      }
    }
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return "waiting failed: " + std::generic_category().message(errno);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  return words.empty() ? message(arguments[0], " failed with status ", WEXITSTATUS(status)) : words;
}

bool present(const char* program) {
  return run({program, "--version"}, [](auto) { return true; }).empty();
}

std::string fetch(const std::string& address, const Take& take) {
  if (present("curl"))
    return run({"curl", "--fail", "--location", "--silent", "--show-error", "--connect-timeout", "30", "--max-time",
                "900", "--", address},
               take);
  if (present("wget"))
    return run({"wget", "--no-verbose", "--tries=2", "--timeout=30", "-O", "-", "--", address}, take);
  return "neither curl nor wget is installed (apt install curl)";
}

}  // namespace

void download(const std::vector<std::string>& addresses, const std::string& file, const std::string& sum,
              std::uint64_t limit) {
  std::string said;
  for (const std::string& address : addresses) {
    AtomicFile part(file);
    Sha256 found;
    std::uint64_t size = 0;
    std::optional<std::string> unwritten;
    std::string problem = fetch(address, [&](std::span<const std::byte> bytes) {
      size += bytes.size();
      if (size > limit) return false;
      try {
        part.write(bytes);
      } catch (const FileError& error) {
        unwritten = error.what();
        return false;
      }
      found.update(bytes);
      return true;
    });
    if (unwritten) throw FileError(*unwritten);
    if (size > limit) problem = message("it has more than the ", limit, " bytes that are expected at most");
    if (problem.empty()) {
      const std::string digits = found.hexadecimal();
      if (digits == sum) return part.commit();
      problem = message("its SHA-256 is ", digits, ", expected ", sum);
    }
    said += message("\n  ", address, ": ", problem);
  }
  throw FileError(message(file, ": could not be downloaded; fetch it manually and put it there. Tried", said));
}

}  // namespace tern::io
