#pragma once

#include <array>
#include <csignal>

namespace tern::training {

/// While one of these lives, the first SIGINT, SIGTERM, SIGHUP or SIGQUIT is noted, so that the work can come to an
/// orderly end. One that comes a second later or more ends the process at once; what comes sooner is the same wish,
/// sent to the process and to its group, as timeout(1) and schedulers do. A hang-up that is ignored, as under nohup(1),
/// stays ignored. One at a time in a process.
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
  /// The signal that came; 0 for none.
  static int received();

 private:
  std::array<struct sigaction, 4> before_{};
};

}  // namespace tern::training
