#include "debug/signals.hpp"

#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <string>

#include "debug/block.hpp"
#include "tern/core/error.hpp"

namespace tern::debug {
namespace {

thread_local sigjmp_buf* landing = nullptr;  // of the kernel that the thread runs
thread_local void* volatile address_touched = nullptr;

struct Heard {
  int signal;
  struct sigaction before {};
};
Heard heard[]{{SIGSEGV}, {SIGBUS}};

// The process ends. The message must not be lost, so it goes directly to the terminal.
void tell(void* address) {
  std::string what = "memory of the debug device";
  if (device_mutex().try_lock()) {
    if (const auto* const block = blocks().find(address)) {
      what = (*block)->place(static_cast<std::byte*>(address));
      if (!(*block)->live) what += ", which was released";
    }
    device_mutex().unlock();
  }
  const std::string text = message("tern: debug: the host touched ", what,
                                   "; only work that is queued may: read a Tensor by read(), values() or item()\n");
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void handle(int signal, siginfo_t* info, void* context) {
  if (landing != nullptr) {
    address_touched = info->si_addr;
    siglongjmp(*landing, 1);
  }
  if (arena().holds(info->si_addr)) tell(info->si_addr);
  struct sigaction* before = nullptr;
  for (Heard& each : heard)
    if (each.signal == signal) before = &each.before;
  if (before == nullptr) return;
  if ((before->sa_flags & SA_SIGINFO) != 0) return before->sa_sigaction(signal, info, context);
  if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) return before->sa_handler(signal);
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);  // the instruction is retried, and ends the process
}

}  // namespace

void hear_signals() noexcept {
  for (Heard& each : heard) {
    struct sigaction present {};
    if (sigaction(each.signal, nullptr, &present) != 0) continue;
    if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == handle) continue;
    struct sigaction ours {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    each.before = present;
    sigaction(each.signal, &ours, nullptr);
  }
}

std::optional<std::byte*> touched(const std::function<void()>& kernel) {
  // Objects on the stack of a kernel that ends like this are never destroyed.
  sigjmp_buf here;
  struct Landing {
    explicit Landing(sigjmp_buf* place) { landing = place; }
    ~Landing() { landing = nullptr; }
  };
  const Landing guard(&here);
  if (sigsetjmp(here, 1) == 0) {
    kernel();
    return std::nullopt;
  }
  void* const address = address_touched;
  std::byte* const known = arena().handed_out(address);
  return known != nullptr ? known : static_cast<std::byte*>(address);
}

}  // namespace tern::debug
