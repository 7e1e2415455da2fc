#pragma once

#include <array>
#include <csignal>

namespace tern::training {

/// While one of these lives, the first SIGINT, SIGTERM, SIGHUP or SIGQUIT is noted, so that the work can end cleanly. A
/// signal that comes a second later or more ends the process at once. An earlier one counts as the same request,
/// because timeout(1) and schedulers signal both the process and its group. An ignored hang-up, as under nohup(1),
/// stays ignored. At most one guard per process.
///
///     const training::SignalGuard signals;
///     trainer.run({.stop = [] { return training::SignalGuard::received() != 0; }});  // Ctrl-C stops after a step
///
class SignalGuard {
 public:
  SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();
  /// The signal that arrived; 0 for none.
  static int received();

 private:
  std::array<struct sigaction, 4> before_{};
};

}  // namespace tern::training
