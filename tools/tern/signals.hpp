#pragma once

namespace tern::tool {

/// While one of these lives, the first SIGINT or SIGTERM is noted, so that the work can come to an orderly end. One
/// that comes a second later or more ends the process at once; what comes sooner is the same wish, sent to the process
/// and to its group, as timeout(1) and schedulers do.
class SignalGuard {
 public:
  SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();
  /// The signal that came; 0 for none.
  static int received();
};

}  // namespace tern::tool
