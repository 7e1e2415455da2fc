#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tern/core/error.hpp"

namespace tern::testing {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Takes what is there; false when the other end is closed.
bool take(int& descriptor, std::string& text) {
  char part[65536];
  for (;;) {
    const ssize_t count = ::read(descriptor, part, sizeof part);
    if (count > 0) {
      text.append(part, static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && errno == EAGAIN) {
      return true;
    } else {  // closed; EIO is a terminal's way to say so
      ::close(descriptor);
      descriptor = -1;
      return false;
    }
  }
}

// In the child, between fork and exec.
[[noreturn]] void become(const std::vector<std::string>& arguments, const ProcessOptions& options, int out, int err) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) std::signal(signal, SIG_DFL);  // whatever started this test
  ::dup2(out, 1);
  ::dup2(err, 2);
  for (int descriptor = 3; descriptor < 256; ++descriptor) ::close(descriptor);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  for (const std::string& setting : options.environment) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos)
      ::unsetenv(setting.c_str());
    else
      ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
  }
  if (options.address_space > 0) {
    const rlimit limit{static_cast<rlim_t>(options.address_space), static_cast<rlim_t>(options.address_space)};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  if (options.nobody && ::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(126);
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(words[0], words.data());
  ::_exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const ProcessOptions& options)
    : deadline_(now() + (sanitized ? 10 : 1) * options.seconds) {
  int out[2]{}, err[2]{};
  expects<Error>(::pipe(out) == 0, "no pipe");
  if (options.terminal) {
    winsize size{};
    size.ws_col = 100;
    size.ws_row = 30;
    expects<Error>(::openpty(&err[0], &err[1], nullptr, nullptr, &size) == 0, "no terminal");
  } else {
    expects<Error>(::pipe(err) == 0, "no pipe");
  }
  pid_ = ::fork();
  expects<Error>(pid_ >= 0, "no process");
  if (pid_ == 0) become(arguments, options, out[1], err[1]);
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
  ::fcntl(out_, F_SETFL, O_NONBLOCK);
  ::fcntl(err_, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

void Process::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (!ended_) ::kill(pid_, number);
}

void Process::drain() {
  if (out_ >= 0) take(out_, outcome_.out);
  if (err_ >= 0) take(err_, outcome_.err);
}

std::string Process::err_so_far() {
  drain();
  return outcome_.err;
}

bool Process::running() {
  if (ended_) return false;
  drain();
  int status = 0;
  rusage used{};
  {
    const std::lock_guard lock(mutex_);
    if (::wait4(pid_, &status, WNOHANG, &used) != pid_) return true;
    ended_ = true;
  }
  drain();
  outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome_.peak_bytes = sanitized ? 0 : std::int64_t{used.ru_maxrss} * 1024;
  return false;
}

Outcome Process::wait() {
  while (running()) {
    if (now() > deadline_) {
      outcome_.timed_out = true;
      signal(SIGKILL);
    }
    pollfd ends[2]{{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    ::poll(ends, 2, 2);
    // A process that closed its ends but lives on must not be polled in a busy loop.
    if (out_ < 0 && err_ < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return outcome_;
}

const char* const program_path = TERN_PROGRAM;

Outcome tern(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  std::vector<std::string> words{program_path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return Process(words, options).wait();
}

}  // namespace tern::testing
