#include "tern/training/signal_guard.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace tern::training {

namespace {

std::atomic<int> noted{0};
std::atomic<std::int64_t> noted_at{0};  // in milliseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler writes them");

constexpr std::array ends{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

void note(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t milliseconds = now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1'000'000;
  if (noted.load(std::memory_order_relaxed) == 0) {
    noted_at.store(milliseconds, std::memory_order_relaxed);
    noted.store(signal, std::memory_order_relaxed);
  } else if (milliseconds - noted_at.load(std::memory_order_relaxed) >= 1000) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
}

}  // namespace

SignalGuard::SignalGuard() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    sigaction(ends[i], nullptr, &before_[i]);
    if (ends[i] != SIGHUP || before_[i].sa_handler != SIG_IGN) sigaction(ends[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < ends.size(); ++i) sigaction(ends[i], &before_[i], nullptr);
}

int SignalGuard::received() { return noted.load(std::memory_order_relaxed); }

}  // namespace tern::training
