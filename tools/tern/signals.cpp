#include "signals.hpp"

#include <atomic>
#include <csignal>

namespace tern::tool {

namespace {

std::atomic<int> noted{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

void note(int signal) { noted.store(signal, std::memory_order_relaxed); }

}  // namespace

SignalGuard::SignalGuard() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  // The handler is taken off by the first signal: the next one has its usual effect.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

SignalGuard::~SignalGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int SignalGuard::received() { return noted.load(std::memory_order_relaxed); }

}  // namespace tern::tool
