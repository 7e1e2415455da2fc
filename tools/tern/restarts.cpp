#include "restarts.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "errors.hpp"
#include "folder_lock.hpp"
#include "tern/training/signal_guard.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

using Clock = std::chrono::steady_clock;

// The code of a launcher that had to be killed; no process ends with it.
constexpr int launcher_stuck = -1;

// Identifies a file and its size; a new file of the name, or a longer one, is different.
std::optional<std::tuple<dev_t, ino_t, off_t>> identity(const std::string& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return std::nullopt;
  return std::tuple{found.st_dev, found.st_ino, found.st_size};
}

std::string this_program() {
  std::array<char, 4096> name{};
  const ssize_t length = ::readlink("/proc/self/exe", name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "tern";
}

std::vector<std::string> launcher_of(const Restarts& restarts) {
  if (restarts.launcher.empty()) {
    if (restarts.parallel == "threads") return {};
    return {"mpirun", "-n", std::to_string(restarts.ranks)};
  }
  std::istringstream stream(restarts.launcher);
  stream.imbue(std::locale::classic());
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Removes some options and their values.
std::vector<std::string> without(const std::vector<std::string>& names, const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool dropped = std::ranges::any_of(names, [&](const std::string& each) { return name == "--" + each; });
    if (!dropped)
      kept.push_back(words[i]);
    else if (name == words[i])
      ++i;  // its value
  }
  return kept;
}

pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  expects<Error>(child >= 0, "no process could be started: ", std::generic_category().message(errno));
  if (child > 0) return child;
  ::setpgid(0, 0);  // signals come through the parent, once
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_DFL);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  ::execvp(pointers[0], pointers.data());
  ::_exit(errno == ENOENT ? 127 : 126);
}

bool is_free(const std::string& folder) {
  try {
    const FolderLock lock(folder);
    return true;
  } catch (const FileError&) {
    return false;
  }
}

/// Whether the launcher outlives the training by more than a limit: mpirun waits for an unreachable machine until TCP
/// gives up, which takes a quarter of an hour.
class Outlived {
 public:
  Outlived(std::string folder, std::string metrics, std::int64_t seconds)
      : folder_(std::move(folder)), metrics_(std::move(metrics)), limit_(seconds), before_(identity(metrics_)) {}

  bool operator()() {
    const Clock::time_point now = Clock::now();
    if (limit_.count() == 0 || now < next_) return false;
    next_ = now + std::chrono::milliseconds(200);
    // The first rank locks the folder from before its first event to its end. If that was never observed, because files
    // cannot be locked there, nothing is known.
    begun_ = begun_ || identity(metrics_) != before_;
    if (!begun_) return false;
    const bool kept = !is_free(folder_);
    seen_ |= kept;
    if (kept || !seen_) left_ = now;
    return now - left_ > limit_;
  }

 private:
  std::string folder_, metrics_;
  std::chrono::seconds limit_;
  std::optional<std::tuple<dev_t, ino_t, off_t>> before_;
  Clock::time_point next_ = {}, left_ = {};
  bool begun_ = false, seen_ = false;
};

// The child's exit code; signals to this process are passed on.
int wait_for(pid_t child, Outlived outlived) {
  for (bool passed = false;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (const int signal = training::SignalGuard::received(); signal != 0 && !std::exchange(passed, true))
      ::kill(child, signal);
    if (outlived()) {
      ::kill(-child, SIGKILL);  // with what it has started here
      ::waitpid(child, &status, 0);
      return launcher_stuck;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Ranks may outlive their mpirun for a moment.
void wait_until_free(const std::string& folder, std::int64_t seconds) {
  const auto latest = Clock::now() + std::chrono::seconds(seconds);
  while (std::filesystem::exists(folder) && Clock::now() < latest && training::SignalGuard::received() == 0 &&
         !is_free(folder))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// mpirun and similar launchers return 1 for much that is no rank's fault.
bool worth_another(int code, bool launched) {
  return code > 128 || code == rank_lost || code == launcher_stuck ||
         (launched && code != success && code != usage && code != bad_data && code != no_device && code != 126 &&
          code != 127);
}

std::string reason_of(int code) {
  if (code == rank_lost) return "a rank failed or did not arrive";
  if (code == launcher_stuck) return "its ranks ended, but their launcher ran on for more than --rank-limit";
  if (code > 128) return message("killed by signal ", code - 128);
  return message("exit code ", code);
}

}  // namespace

int run_with_restarts(const Restarts& restarts, const std::string& verb, const std::vector<std::string>& words,
                      const OptionNames& chosen) {
  const bool inside = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
  const std::string otherwise = message(": tern ", verb, " --restarts ", restarts.times,
                                        " --parallel mpi --ranks N, or --launcher \"mpirun -n N\"");
  expects<UsageError>(!inside, "--restarts starts mpirun itself; leave that out", otherwise);
  expects<UsageError>(restarts.parallel == "threads" || restarts.ranks > 1 || !restarts.launcher.empty(),
                      "--restarts needs to know how many processes to start", otherwise);
  const std::vector<std::string> launcher = launcher_of(restarts);
  std::vector<std::string> own = without({"restarts", "launcher"}, words);  // handled by this process
  own.insert(own.end(), {"--restarts", "0"});                               // a configuration file may say otherwise
  const auto before = identity(restarts.begun);
  const training::SignalGuard signals;
  for (std::int64_t attempt = 0;; ++attempt) {
    std::vector<std::string> command = launcher;
    command.insert(command.end(), {this_program(), verb});
    if (attempt > 0) wait_until_free(restarts.folder, restarts.rank_limit);
    const auto now = identity(restarts.begun);
    if (attempt > 0 && !chosen.contains("resume") && now && now != before) {
      own = without(restarts.saved, own);
      if (std::ranges::find(own, "--resume") == own.end()) own.emplace_back("--resume");
    }
    command.insert(command.end(), own.begin(), own.end());
    Outlived outlived(restarts.folder, restarts.begun, restarts.first_ends ? restarts.rank_limit : 0);
    const int code = wait_for(start(command), std::move(outlived));
    expects<Error>(code != 127 || launcher.empty(), "the program ", command[0], " was not found");
    if (training::SignalGuard::received() != 0 || !worth_another(code, !launcher.empty())) return code;
    if (attempt == restarts.times) {
      say(message("tern: the ", restarts.work, " ended again (", reason_of(code), "), after ", attempt, " restarts"));
      return code == launcher_stuck ? rank_lost : code;
    }
    say(message("tern: the ", restarts.work, " ended (", reason_of(code), "); it starts again, ", attempt + 1, " of ",
                restarts.times));
  }
}

}  // namespace tern::tool
