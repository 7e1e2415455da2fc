#pragma once

namespace tern::tool {

/// While one of these lives, the first SIGINT or SIGTERM is noted, so that the work can come to an orderly end; a
/// second one ends the process at once.
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
