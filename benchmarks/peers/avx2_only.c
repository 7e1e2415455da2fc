// Hides AVX-512 and AMX from a program, so that a peer that chooses its kernels by cpuid can be measured as on a
// processor with AVX2:   cc -O2 -shared -fPIC -o avx2_only.so avx2_only.c && LD_PRELOAD=./avx2_only.so PROGRAM ...
// Linux on x86-64 with cpuid faulting ("cpuid_fault" in /proc/cpuinfo): the instruction then raises SIGSEGV, and the
// handler answers in its place. A library that replaces the handler of SIGSEGV ends the disguise by a crash, not
// unnoticed.

#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void answer(int number, siginfo_t* info, void* context) {
  greg_t* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* const at = (const unsigned char*)registers[REG_RIP];
  (void)info;
  if (at[0] != 0x0f || at[1] != 0xa2) {  // not cpuid
    signal(number, SIG_DFL);
    return;
  }
  unsigned a, b, c, d;
  const unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
  __cpuid_count(leaf, part, a, b, c, d);
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
  if (leaf == 7 && part == 0) {
    b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
    d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
  }
  if (leaf == 7 && part == 1) a &= ~(1u << 5 | 1u << 21);
  if (leaf == 0xd && part == 0) a &= ~0xe0u & ~(3u << 17);
  if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) a = b = c = d = 0;
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void hide(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL);
  if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) != 0) {
    perror("avx2_only: cpuid faulting");
    abort();
  }
}
