// What a SignalGuard hears, and what it leaves behind.

#include <csignal>

#include "support/catch.hpp"
#include "tern/training/signal_guard.hpp"

namespace tern::testing {

using training::SignalGuard;

TEST_CASE("signals: one that comes at once again counts as the same request", "[trainer]") {
  const SignalGuard guard;
  std::raise(SIGTERM);
  std::raise(SIGINT);
  CHECK(SignalGuard::received() == SIGTERM);
}

TEST_CASE("signals: a guard begins without one, and leaves the handlers as they were", "[trainer]") {
  static int heard = 0;
  const auto before = std::signal(SIGINT, [](int) { ++heard; });
  {
    const SignalGuard guard;
    std::raise(SIGINT);
    CHECK(SignalGuard::received() == SIGINT);
    CHECK(heard == 0);
  }
  std::raise(SIGINT);
  CHECK(heard == 1);
  std::signal(SIGINT, before);
  const SignalGuard again;
  CHECK(SignalGuard::received() == 0);
}

TEST_CASE("signals: an ignored hang-up stays ignored", "[trainer]") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const SignalGuard guard;
    std::raise(SIGHUP);
    CHECK(SignalGuard::received() == 0);
  }
  std::signal(SIGHUP, before);
}

}  // namespace tern::testing
